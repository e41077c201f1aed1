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
