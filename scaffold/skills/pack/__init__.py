"""The pack as a whole: what is rendered from .agents for the clients, listed and begun."""
