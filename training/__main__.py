"""Run every step: ``python -m training --corpus ../shared/corpus --eval ../shared/eval``."""

import runpy
import sys
from pathlib import Path

from training import arguments, in_words, minutes, steps


def run(step: str, options: list[object]) -> None:
    """Run one step in this process, so that none goes on where this is killed."""
    print(f"== {step}", flush=True)
    sys.argv[1:] = map(str, options)
    runpy.run_path(str(Path(__file__).with_name(f"{step}.py")), run_name="__main__")


def main() -> None:
    parser = arguments(
        __doc__, corpus="../shared/corpus", eval="../shared/eval", init="../shared/encoder",
        work="work/encoder", out="data/encoder",
    )  # fmt: skip
    parser.add_argument("--known", nargs="*", default=["en", "es"],
                        help="languages whose rows of --init are kept")  # fmt: skip
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=minutes, default=58,
                        help="of each training; the third has nine at most")  # fmt: skip
    length.add_argument("--steps", type=steps,
                        help="of each training, by no clock; the third has a sixth")  # fmt: skip
    a = parser.parse_args()
    for folder in (a.corpus, a.eval / "stsb", a.init):  # some are read after an hour only
        if not folder.is_dir():
            parser.error(f"{folder} is no folder")
    w = a.work
    prepared, taught, trained = f"{w}/prepared", f"{w}/taught", f"{w}/trained/student"
    second, last = f"{w}/second", f"{w}/last"
    shipping, calibration = f"{w}/shipping", f"{w}/calibration.json"
    rows = ["--prepared", prepared, "--taught", taught, "--stsb", f"{a.eval}/stsb"]
    whole, short = ["--minutes", a.minutes], ["--minutes", min(9, a.minutes)]
    if a.steps is not None:
        whole, short = ["--steps", a.steps], ["--steps", -(-a.steps // 6)]
    students = ["--source", trained, f"{last}/student"]
    commands = [
        ["prepare", "--corpus", a.corpus, "--eval", a.eval, "--out", prepared],
        ["teach", "--prepared", prepared, "--out", taught],
        ["vocabulary", "--prepared", prepared, "--init", a.init, "--known", *a.known,
         "--out", f"{w}/start"],
        ["train", *rows, "--start", f"{w}/start", "--out", f"{w}/trained", *whole],
        ["train", *rows, "--start", trained, "--out", second, "--seed", "1", *whole,
         "--words", "5", "--rows-rate", "0.7", "--body-rate", "0.7", "--teacher-share", "0.35",
         "--human-from", "0.7"],
        ["train", *rows, "--start", f"{second}/student", "--out", last, "--seed", "2", *short,
         "--words", "4", "--rows-rate", "0.33", "--body-rate", "0.5", "--human-from", "0"],
        ["export", *students, "--prepared", prepared, "--out", shipping],
        ["calibrate", "--encoder", f"fast:{shipping}", "--prepared", prepared,
         "--corpus", a.corpus, "--eval", a.eval, "--out", calibration],
        ["export", *students, "--prepared", prepared, "--calibration", calibration,
         "--out", a.out],
        ["evaluate", "teacher", f"fast:{a.out}", "--prepared", prepared, "--eval", a.eval,
         "--kept", f"{w}/evaluation"],
    ]  # fmt: skip
    with in_words():
        w.mkdir(parents=True, exist_ok=True)
        for step, *options in commands:
            run(step, options)


if __name__ == "__main__":
    main()
