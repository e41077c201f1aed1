"""What servers, ranks and updates cost, and what a thousand GPUs would make of them."""
