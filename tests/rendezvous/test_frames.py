"""Messages of the rendezvous store as bytes: exactly what is packed is unpacked, and nothing else is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from distarray.rendezvous import frames
from distarray.rendezvous.frames import Op, WireError


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_unpack_takes_exactly_what_pack_makes(data: bytes) -> None:
    try:
        message = frames.unpack(data)
    except WireError:
        return
    assert frames.pack(message.op, message.request, *message.fields) == data


@given(st.sampled_from(Op), st.integers(0, 0xFFFFFFFF), st.lists(st.binary(max_size=50), max_size=4))
def test_unpack_reverses_pack(op: Op, request: int, fields: list[bytes]) -> None:
    assert frames.unpack(frames.pack(op, request, *fields)) == (op, request, tuple(fields))
