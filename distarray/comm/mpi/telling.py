"""What all processes of a communicator tell each other: small values, that they have come, who they are, and in debug mode which
call they make.

Functions of a `Channel`, for every kind of call that stands on one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.comm.base import Numbers, Signature
from distarray.comm.mpi import verdict
from distarray.comm.mpi.channel import Channel, Pending, Standing
from distarray.comm.mpi.control import Tags
from distarray.comm.mpi.exit import register
from distarray.comm.record import Call, fingerprint
from distarray.errors import CollectiveMismatchError

__all__ = ["all_gather", "barrier", "compare", "introduce", "start", "tell_numbers"]

FRAME = 256
"""Bytes of the first message of an all-gather; longer payloads send the rest in a second one."""
DEBUG_FRAME = 1024
TURNS = 64
"""Looks at the messages of numbers before the wait is one as any other."""


def introduce(channel: Channel) -> None:
    """Learn every rank's host and process, and have the channel say goodbye at the process's end."""
    me = f"{os.getpid()}\0{socket.gethostname()}".encode()
    channel.know(all_gather(channel, me, Signature("form the communicator")))
    register(channel)


def start(channel: Channel, kind: str, signature: Signature) -> Call:
    """Begin a call of all processes; in debug mode they compare it first."""
    call = channel.begin(kind, signature)
    if channel.debug and channel.size > 1:
        compare(channel, call)
    return call


def all_gather(channel: Channel, payload: bytes, signature: Signature) -> list[bytes]:
    """Every process's payload, in the order of ranks."""
    call = start(channel, "all_gather", signature)
    pending: list[Pending] = []
    try:
        return _gathered(channel, call, pending, bytes(payload))
    except BaseException as error:
        channel.broke(call, pending, error)
        raise


def barrier(channel: Channel, signature: Signature) -> None:
    """Wait until every process has come here."""
    call = start(channel, "barrier", signature)
    pending: list[Pending] = []
    try:
        step = 1
        while step < channel.size:  # dissemination: after k steps each has heard of 2**k
            first = len(pending)
            channel.transfer_slot(call, pending, (channel.rank - step) % channel.size, bytearray(1), True, Tags.GATHER)
            channel.transfer_slot(call, pending, (channel.rank + step) % channel.size, b"b", False, Tags.GATHER)
            channel.complete(call, pending, first)
            step *= 2
    except BaseException as error:
        channel.broke(call, pending, error)
        raise
    call.finish()


def tell_numbers(channel: Channel, numbers: Numbers, mine: Sequence[Any], site: str) -> list[tuple[Any, ...]]:
    """Every process's call, its name and its numbers, in the order of ranks. Each message says which call it belongs to."""
    signature = Signature(numbers.operation, numbers.detail, site)
    if channel.debug:
        call = start(channel, "exchange", signature)
    else:
        call = channel.begin("exchange", signature, listens=True)
    standing = channel.standing
    form = numbers.form
    try:
        sequence, name = call.sequence, numbers.name
        form.pack_into(standing.mine, 0, sequence, name, *mine)
        _hear(channel, call, standing)
        told = [form.unpack_from(frame) for frame in standing.frames]
        for first, second, *_ in told:
            if first != sequence or second != name:
                told = _heard_again(channel, call, numbers)
                break
    except BaseException as error:
        channel.broke(call, standing.items, error)
        raise
    call.finish()
    return told


def _hear(channel: Channel, call: Call, standing: Standing) -> None:
    """Send and await the messages that stand: a short while as if they were one, listening once, and then as any others."""
    test, requests = standing.test, standing.requests
    standing.set_done(False)
    try:
        standing.begin(requests)
        if not test(requests):
            channel.listen(call, standing.peers)
            for _ in range(TURNS):
                if test(requests):
                    break
            else:
                channel.complete(call, standing.items)
                return
    except standing.error as error:
        channel.translate(call, error, None)
    standing.set_done(True)


def _heard_again(channel: Channel, call: Call, numbers: Numbers) -> list[tuple[Any, ...]]:
    """What is heard where a process told something at another call: the wait goes on, and finds out where that process is."""
    standing, form = channel.standing, numbers.form
    wanted = call.sequence, numbers.name
    while True:
        told = [form.unpack_from(frame) for frame in standing.frames]
        others = [item for item in standing.items if item.receiving and told[item.peer][:2] != wanted]
        if not others:
            return told
        for item in others:
            item.done = False
            item.request.Start()
        channel.complete(call, others)


def _gathered(channel: Channel, call: Call, pending: list[Pending], payload: bytes) -> list[bytes]:
    """The two messages of an all-gather: a frame of fixed length that says how long the payload is, and the rest of it."""
    others = [(channel.rank + step) % channel.size for step in range(1, channel.size)]
    head = (len(payload).to_bytes(8, "little") + payload[: FRAME - 8]).ljust(FRAME, b"\0")
    frames = {peer: bytearray(FRAME) for peer in others}
    for peer in others:
        channel.transfer_slot(call, pending, peer, frames[peer], True, Tags.GATHER)
    for peer in others:
        channel.transfer_slot(call, pending, peer, head, False, Tags.GATHER)
    channel.complete(call, pending)
    lengths = {peer: int.from_bytes(frames[peer][:8], "little") for peer in others}
    rests = {peer: np.empty(max(lengths[peer] - FRAME + 8, 0), np.uint8) for peer in others}
    first = len(pending)
    for peer, rest in rests.items():
        channel.transfer_segments(call, pending, peer, rest, True, Tags.REST)
    mine = np.frombuffer(payload, np.uint8)[FRAME - 8 :]
    for peer in others:
        channel.transfer_segments(call, pending, peer, mine, False, Tags.REST)
    channel.complete(call, pending, first)
    call.finish()
    gathered = {peer: bytes(frames[peer][8:][: lengths[peer]]) + rests[peer].tobytes() for peer in others}
    gathered[channel.rank] = payload
    return [gathered[rank] for rank in range(channel.size)]


def compare(channel: Channel, call: Call) -> None:
    """Show every rank what this one is about to do, in debug mode. The error names the first rank that differs from rank 0."""
    text = str(call).encode()[: DEBUG_FRAME - 16]
    mine = (fingerprint(call.sequence, call.kind, call.signature) + text).ljust(DEBUG_FRAME, b"\0")
    frames = [bytearray(mine) for _ in range(channel.size)]
    shown, tag = channel.shown(call)
    pending: list[Pending] = []
    try:
        for peer in range(channel.size):
            if peer != channel.rank:
                channel.transfer(shown, pending, peer, frames[peer], True, tag)
                channel.transfer(shown, pending, peer, mine, False, tag)
        channel.complete(shown, pending)
    except BaseException as error:
        channel.broke(call, pending, error)
        raise
    for rank, frame in enumerate(frames):
        if frame[:16] != frames[0][:16]:
            said = [bytes(one[16:]).rstrip(b"\0").decode(errors="replace") for one in (frames[0], frame)]
            differ = verdict.mismatch(channel.who(rank), said[1], channel.who(0), said[0], "their fingerprints differ")
            channel.fail(CollectiveMismatchError, differ)
