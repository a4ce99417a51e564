"""What a received message costs in CPU: websocket-client's `recv()` against our child, in the same run.

    python -m tests.bench.receive [--rounds N] [--messages N]

Both are fed by the same server, a process that sends one block of frames, encoded beforehand, again and again. The
client is `recv()` with `skip_utf8_validation` (its UTF-8 check would cost it another 240 us at 1 KB); the child is a
real process that runs `workers.shard.run` with the sink `discard`, and checks all text strictly. CPU is user + system
time of the receiving process between two of its own message counts, so that start and connect are left out. Rounds
alternate; medians are shown.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import subprocess
import sys
import time

import websocket

from tests.arguments import whole
from tests.bench.figures import cpu_s
from tests.child import process, task
from tests.feed import TEXT, Peer, frame
from tests.wait import until
from workers.board import DEADLINE, MESSAGES, Board

SIZES = (100, 1024)
BLOCK_BYTES = 1024 * 1024
GOAL_AT_1_KB = 10.0


def _serve(listener: socket.socket, size: int) -> None:
    """Send messages of `size` bytes to whoever connects, for ever."""
    payload = (b'{"price": 101.25, "text": "' + b"x" * size)[: size - 2] + b'"}'
    block = frame(TEXT, payload) * (BLOCK_BYTES // size)
    while True:
        sock, _ = listener.accept()
        with sock:
            peer = Peer(feed=None, sock=sock, number=0)  # type: ignore[arg-type]
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(65_536)
            lines = head.decode().split("\r\n")
            peer.headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
            try:
                peer.accept()
                while True:
                    peer.raw(block)
            except OSError:
                continue


def _library(url: str, messages: int, result: multiprocessing.connection.Connection) -> None:
    client = websocket.WebSocket(skip_utf8_validation=True, enable_multithread=False)
    client.connect(url)
    for _ in range(1000):
        client.recv()
    begin_s = time.process_time()
    for _ in range(messages):
        client.recv()
    result.send((time.process_time() - begin_s) / messages * 1e6)


def library_us(url: str, messages: int) -> float:
    """CPU microseconds per message of websocket-client."""
    ours, theirs = multiprocessing.Pipe()
    client = multiprocessing.Process(target=_library, args=(url, messages, theirs))
    client.start()
    result: float = ours.recv()
    client.join()
    return result


def child_us(url: str, messages: int) -> float:
    """CPU microseconds per message of our child."""
    board = Board.create()
    words = board.slot(0).words
    words[DEADLINE] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 600 * 10**9
    child = process(task(url), board, stderr=subprocess.DEVNULL)
    try:
        until(lambda: words[MESSAGES] > 1000, 30)
        begin, begin_s = words[MESSAGES], cpu_s(child.pid)
        until(lambda: words[MESSAGES] >= begin + messages, 60)
        end, end_s = words[MESSAGES], cpu_s(child.pid)
    finally:
        child.kill()
        child.wait()
    return (end_s - begin_s) / (end - begin) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.receive")
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument(
        "--messages", type=whole, default=100_000, help="of the library; the child gets ten times as many"
    )
    arguments = parser.parse_args()
    print("CPU us per message, median (lowest to highest)")
    met = True
    for size in SIZES:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = multiprocessing.Process(target=_serve, args=(listener, size), daemon=True)
            server.start()
            url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
            pairs = [
                (library_us(url, arguments.messages), child_us(url, arguments.messages * 10))
                for _ in range(arguments.rounds)
            ]
            server.kill()
            server.join()
        theirs, ours = zip(*pairs, strict=True)
        ratio = statistics.median(theirs) / statistics.median(ours)
        for name, values in (("websocket-client recv()", theirs), ("tenured child", ours)):
            print(f"{size:5} B  {name:24} {statistics.median(values):7.3f} ({min(values):.3f} to {max(values):.3f})")
        print(f"{size:5} B  ratio {ratio:25.1f}")
        met = met and (size != 1024 or ratio >= GOAL_AT_1_KB)
    print(f"goal at 1 KB, {GOAL_AT_1_KB:.0f} times less: {'met' if met else 'NOT met'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
