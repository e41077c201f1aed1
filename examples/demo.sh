#!/usr/bin/env bash
# The main job, end to end: a project of one's own, three components made by scaffold, their tests,
# a warm-up and GRPO on a laptop CPU, and where the results lie. `make demo` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin="$PWD/.venv/bin"
export PATH="$bin:$PATH" HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
# A model this small gains nothing from a second thread.
export OMP_NUM_THREADS=1
started=$SECONDS

scratch="$PWD/demo/$(date +%Y%m%d-%H%M%S)"
mkdir -p "$scratch"
cd "$scratch"
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }

say "a project of one's own"
run scaffold new sums --git
cd sums

say "data: additions, some held out; the warm-up's writer doubts three in five"
python - <<'PY'
import json, pathlib, random

rng = random.Random(1)
pathlib.Path("data").mkdir()


def write(name, pairs, doubts=0.0):
    with open(f"data/{name}.jsonl", "w") as file:
        for a, b in pairs:
            answer = f"{a + b}" + "?" * (rng.random() < doubts)
            file.write(json.dumps({"question": f"{a}+{b}=", "answer": answer}) + "\n")


held_out = rng.sample([(a, b) for a in range(100) for b in range(100)], 128)
drawn = [tuple(rng.randrange(10 ** rng.choice((1, 2))) for _ in range(2)) for _ in range(40_000)]
drawn = [pair for pair in drawn if pair not in held_out]
write("test", held_out)
write("train", drawn)
write("warm_up", drawn, doubts=0.6)
PY
head -n 2 data/warm_up.jsonl data/train.jsonl

say "a reward, a dataset and a workflow, registered and tested"
run scaffold add-reward right_sum --style exact --take last_line
run scaffold add-dataset additions --type sft --type rl --from data
run scaffold add-workflow one_try --style rlvr
run scaffold list

say "the tests that were generated"
run python -m pytest -q

say "warm-up: supervised, from random weights, with the project's own configuration"
run areal train -c sft.yaml train_dataset.path=data/warm_up.jsonl
say "GRPO with the new components, until the reward passes 0.95"
run areal train -c grpo.yaml

python - <<'PY'
import json, sys

rows = [json.loads(line) for line in open("runs/sums/grpo/stats.jsonl")]
rewards = [row["stats"]["reward"] for row in rows if row["kind"] == "train"]
first, last = sum(rewards[:3]) / 3, sum(rewards[-10:]) / 10
print(f"\nreward {first:.2f} -> {last:.2f} in {len(rewards)} steps")
sys.exit(0 if last > 0.95 else "the reward did not pass 0.95")
PY

say "done in $((SECONDS - started)) s"
printf 'reward curve     %s\n' "$PWD/runs/sums/grpo/reward.png"
printf 'report           %s\n' "$PWD/runs/sums/grpo/report.html"
printf 'generated files  %s\n' "$PWD/sums" "$PWD/tests"
