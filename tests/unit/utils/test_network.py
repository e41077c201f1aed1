from __future__ import annotations

import ipaddress
import socket

import pytest

from areal.utils import network


def test_ports_are_different_free_and_in_range() -> None:
    ports = network.find_free_ports(5, port_range=(20000, 20100))
    assert len(set(ports)) == 5
    assert all(20000 <= port < 20100 and network.is_port_free(port) for port in ports)


def test_a_taken_port_is_not_free() -> None:
    with socket.socket() as sock:
        sock.bind(("", 0))
        sock.listen()
        port = sock.getsockname()[1]
        assert not network.is_port_free(port)
        with pytest.raises(ValueError, match="only 0 of 1 free ports"):
            network.find_free_ports(1, port_range=(port, port + 1))


def test_excluded_ports_are_not_returned() -> None:
    ports = network.find_free_ports(3, (20000, 20006), exclude_ports={20000, 20001})
    assert not set(ports) & {20000, 20001}


def test_this_machine_has_a_name_and_an_address() -> None:
    assert network.gethostname()
    ipaddress.ip_address(network.gethostip())


def test_a_reserved_port_is_kept_for_whoever_listens_there_later() -> None:
    (reserved,) = network.reserve_ports(1)
    port: int = reserved.getsockname()[1]
    with reserved, socket.create_server(("127.0.0.1", 0)) as other:
        assert not network.is_port_free(port)
        # What died there is started again, though others have connected meanwhile.
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as server:
                socket.create_connection(server.getsockname()).close()
        with socket.socket() as client:
            with pytest.raises(OSError, match="in use"):
                client.bind(("127.0.0.1", port))
            client.connect(other.getsockname())
    with socket.socket() as client:
        client.bind(("127.0.0.1", port))
