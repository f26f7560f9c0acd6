"""Run every step: ``python -m training --corpus ../shared/corpus --eval ../shared/eval``."""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

from training import in_words, minutes


def run(step: str, arguments: list[str]) -> None:
    """Run one step to its end; where this process is ended, so is the step, and waited for."""
    with subprocess.Popen([sys.executable, "-m", f"training.{step}", *arguments]) as child:
        try:
            code = child.wait()
        finally:
            child.terminate()  # a child that has ended hears nothing of it
    if code:
        print(f"{step} ended with {code}", file=sys.stderr)
        raise SystemExit(code if code > 0 else 128 - code)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="../shared/corpus")
    parser.add_argument("--eval", default="../shared/eval")
    parser.add_argument("--init", default="../shared/encoder", help="the encoder to start from")
    parser.add_argument("--work", default="work/encoder")
    parser.add_argument("--minutes", type=minutes, default=58,
                        help="of the first two trainings each; the third has nine")  # fmt: skip
    parser.add_argument("--out", default="data/encoder")
    a = parser.parse_args()
    for folder in (a.corpus, f"{a.eval}/stsb", a.init):  # some are read after an hour only
        if not Path(folder).is_dir():
            parser.error(f"{folder} is no folder")
    w = a.work
    prepared, taught, trained = f"{w}/prepared", f"{w}/taught", f"{w}/trained/student"
    second, last = f"{w}/second", f"{w}/last"
    shipping, calibration = f"{w}/shipping", f"{w}/calibration.json"
    rows = ["--prepared", prepared, "--taught", taught, "--stsb", f"{a.eval}/stsb"]
    students = ["--source", trained, f"{last}/student"]
    steps = [
        ["prepare", "--corpus", a.corpus, "--eval", a.eval, "--out", prepared],
        ["teach", "--prepared", prepared, "--out", taught],
        ["vocabulary", "--prepared", prepared, "--init", a.init, "--out", f"{w}/start"],
        ["train", *rows, "--start", f"{w}/start", "--out", f"{w}/trained",
         "--minutes", str(a.minutes)],
        ["train", *rows, "--start", trained, "--out", second, "--seed", "1",
         "--minutes", str(a.minutes), "--words", "5", "--rows-rate", "0.7", "--body-rate", "0.7",
         "--teacher-share", "0.35", "--human-from", "0.7"],
        ["train", *rows, "--start", f"{second}/student", "--out", last, "--seed", "2",
         "--minutes", "9", "--words", "4", "--rows-rate", "0.33", "--body-rate", "0.5",
         "--human-from", "0"],
        ["export", *students, "--out", shipping],
        ["calibrate", "--encoder", f"fast:{shipping}", "--prepared", prepared,
         "--eval", a.eval, "--out", calibration],
        ["export", *students, "--calibration", calibration, "--out", a.out],
        ["evaluate", "teacher", f"fast:{a.out}", "--prepared", prepared, "--eval", a.eval,
         "--kept", f"{w}/evaluation"],
    ]  # fmt: skip
    with in_words():
        Path(w).mkdir(parents=True, exist_ok=True)
    for step, *arguments in steps:
        print(f"== {step}", flush=True)
        run(step, arguments)


if __name__ == "__main__":
    main()
