"""A fault campaign with real processes: python -m tests.process.campaign --minutes 10 --store sqlite|ministack

`--plan` only prints the schedule of the seed. The exit code is 1 if a promise was broken or the goal for the time to
recover was missed. A run that broke a promise keeps its folder and prints where, with what happened around each
violation. Every process is ended at the end, also after Ctrl-C or SIGTERM, and by the kernel if this process is killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tests import engines
from tests.arguments import amount, whole
from tests.bench.fleet import AWS
from tests.process.campaign.report import tell
from tests.process.campaign.run import Options, run, schedule
from tests.process.campaign.schedule import DECKS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.process.campaign",
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--store", choices=sorted(DECKS), default="sqlite", help="ministack is a DynamoDB engine")
    parser.add_argument("--minutes", type=amount, default=10, help="in which faults strike")
    parser.add_argument("--faults", type=whole, default=0, help="how many are planned; by default 480 in ten minutes")
    parser.add_argument("--seed", type=int, default=None, help="of the schedule; by default one that the clock gives")
    parser.add_argument("--shards", type=whole, default=12, help="of the fleet")
    parser.add_argument("--supervisors", type=whole, default=3, help="of the fleet")
    parser.add_argument("--lease-duration", type=amount, default=3.0, metavar="SECONDS", dest="lease_s", help="T")
    parser.add_argument("--keep", action="store_true", help="keep the folder also when all was well")
    parser.add_argument("--plan", action="store_true", help="print the schedule and end")
    given = vars(parser.parse_args(arguments))
    keep, only_plan, minutes = given.pop("keep"), given.pop("plan"), given.pop("minutes")
    seed = given.pop("seed")
    options = Options(**given, seconds=minutes * 60, seed=time.time_ns() % 100_000 if seed is None else seed)
    print(
        f"seed {options.seed}: {options.count} faults planned in {options.seconds:g} s on {options.store}", flush=True
    )
    if only_plan:
        print(*schedule(options), sep="\n")
        return 0
    if options.store == "ministack":
        engines.install()
    os.environ.update(AWS)
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix=f"campaign-{options.seed}-"))
    (folder / "schedule.txt").write_text("\n".join(map(str, schedule(options))) + "\n")
    print(f"its schedule and all that follows, until it ended well: {folder}", flush=True)
    try:
        story = run(options, folder, say=True)
    except KeyboardInterrupt:
        print("interrupted; every process was ended, and nothing is judged")
        return 130
    well = tell(options.store, story, folder)
    if well and not keep:
        shutil.rmtree(folder)
    return 0 if well else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
