"""Addresses and free ports of this machine."""

from __future__ import annotations

import ipaddress
import random
import socket

_PORT_RANGE = (10000, 50000)


def gethostname() -> str:
    """Return this machine's name."""
    return socket.gethostname()


def gethostip() -> str:
    """Return the address under which other machines reach this one; 127.0.0.1 without network."""
    try:
        # Connecting a datagram socket sends nothing; it only makes the kernel pick a route.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("192.0.2.1", 9))  # an address reserved for documentation, RFC 5737
            return str(sock.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Return whether a name or address means this machine alone."""
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:
        return False


def loopback_interface() -> str:
    """Return the name of the interface that leads nowhere but to this machine: lo, or lo0."""
    names = [name for _, name in socket.if_nameindex()]
    return "lo0" if "lo0" in names else "lo"


def is_port_free(port: int) -> bool:
    """Return True if a server could listen on a TCP port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        try:
            sock.bind(("", port))
        except OSError:
            return False
    return True


def reserve_ports(count: int) -> list[socket.socket]:
    """Return sockets that keep as many free ports for servers of this user's.

    While a socket is open nobody finds its port free and no connection gets it by chance, but a
    server that sets SO_REUSEADDR, as servers do, can listen there, and again after it died.

    Args:
        count: How many.

    Raises:
        ValueError: There are fewer free ports.
    """
    sockets: list[socket.socket] = []
    for port in find_free_ports(count):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("", port))
        sockets.append(sock)
    return sockets


def find_free_ports(
    count: int,
    port_range: tuple[int, int] = _PORT_RANGE,
    exclude_ports: set[int] | None = None,
) -> list[int]:
    """Return different TCP ports that nobody listens on, in random order.

    Another process may take one before its user does; whoever listens must be ready for that.

    Args:
        count: How many.
        port_range: The first port that may be returned, and one past the last.
        exclude_ports: Ports not to return.

    Raises:
        ValueError: The range has fewer free ports.
    """
    candidates = list(set(range(*port_range)) - (exclude_ports or set()))
    # Not the global stream: which ports are free must not change what a seeded run draws.
    random.SystemRandom().shuffle(candidates)
    ports: list[int] = []
    for port in candidates:
        if len(ports) == count:
            break
        if is_port_free(port):
            ports.append(port)
    if len(ports) < count:
        raise ValueError(f"only {len(ports)} of {count} free ports in {port_range}")
    return ports
