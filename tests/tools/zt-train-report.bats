#!/usr/bin/env bats
# zt-train --report: a page that shows a run, without a server or a network.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    awk 'BEGIN {srand(5); for (i = 0; i < 64; i++) {a = rand(); b = rand(); print a "," b "," rand() "," (a > b)}}' >data.csv
}

train() { # OPTION...
    zt-train --new sequential --set dModel=3 --set numClasses=2 --set gridRows=2 -i data.csv --loss cross_entropy --batch "${batch:-8}" "$@"
}

@test "the data of the page: epochs as in the log, statistics as in the events; the network is the same" {
    train --epochs 3 -o plain.json >log
    train --epochs 3 --valid data.csv -o seen.json --report page --observe events.ndjson >log.seen
    cmp plain.json seen.json
    python3 - <<'E'
import json
text = open("page/run.js").read()
run = json.loads(text[len("const run = "):].rstrip().rstrip(";"))
log = [json.loads(line) for line in open("log.seen")]
assert run["schema"] == "zt.report/1" and run["complete"] and run["epochs"] == log
assert all(0 <= e["valid_accuracy"] <= 100 for e in log)
assert run["steps"] == list(range(1, 25))
events = [json.loads(line) for line in open("events.ndjson")]
assert len(events) == 24 * 2 * len(run["layers"])
place = [(l["z"], l["y"], l["x"], l["l"]) for l in run["layers"]]
for e in events:
    i, k = place.index((e["z"], e["y"], e["x"], e["l"])), e["step_count"] - 1
    for key in ("avg", "max", "min"):
        assert abs(run[e["type"]][key][i][k] - e["stats"][key]) <= 1e-5 * abs(e["stats"][key]) + 1e-30
    assert abs(run[e["type"]]["active"][i][k] - e["stats"]["active"] / e["stats"]["total"]) < 1e-5
E
}

@test "a long run has at most 512 points, which are means and extremes of its steps" {
    batch=1 train --epochs 30 -o out.json --report page --observe events.ndjson >log
    python3 - <<'E'
import json
text = open("page/run.js").read()
run = json.loads(text[len("const run = "):].rstrip().rstrip(";"))
steps = run["steps"]
assert steps == list(range(4, 1921, 4)), steps[:5]
events = [json.loads(line) for line in open("events.ndjson")]
first = [e["stats"] for e in events if e["type"] == "forward" and e["l"] == e["x"] == e["y"] == e["z"] == 0]
for k in (0, 100, 479):
    own = first[4 * k:4 * k + 4]
    assert abs(run["forward"]["max"][0][k] - max(s["max"] for s in own)) < 1e-5
    assert abs(run["forward"]["avg"][0][k] - sum(s["avg"] for s in own) / 4) < 1e-5
E
}

@test "language models and programs have a page without layers" {
    printf 'The text of a small house, and the words in the house.\n%.0s' {1..20} >text.txt
    zt-train -q --text text.txt --size 60K --vocab 290 -c 16 --batch 8 --epochs 2 -o out.gguf --report page >log
    [ "$(grep -c '"epoch"' page/run.js)" = 2 ]
    ! grep -q '"layers"' page/run.js
}

@test "a run that was there is refused without --force, before training; a name that is a file too" {
    train --epochs 1 -o a.json --report page >log
    cp page/run.js before
    run -73 --separate-stderr train --epochs 1 -o b.json --report page
    [[ $stderr == *"page/run.js: already exists (use -f to overwrite)"* ]]
    cmp before page/run.js
    train --epochs 2 -f -o b.json --report page >log
    ! cmp -s before page/run.js
    run -73 --separate-stderr train --epochs 1 -f -o b.json --report data.csv
    [[ $stderr == *"data.csv: is not a directory"* ]]
    run -73 --separate-stderr train --epochs 1 -o c.json --report none/page
    [[ $stderr == *"none/page: cannot be created: "* ]]
}

@test "a browser draws the page: cards, charts, grid and table; nothing is loaded from elsewhere" {
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "no Chromium here"
    train --epochs 4 --valid data.csv -o out.json --report page >log
    timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --virtual-time-budget=2000 \
        --enable-logging=stderr --dump-dom "file://$PWD/page/index.html" >dom 2>console
    ! grep -i 'CONSOLE.*\(error\|refused\)' console
    grep -q '<b>4</b><span class="soft">epochs</span>' dom
    [ "$(grep -o '<polyline' dom | wc -l)" -ge 5 ]
    grep -q '<div id="layers">' dom # shown: no longer hidden
    [ "$(grep -o '<tr>' dom | wc -l)" -ge 3 ]
    ! grep -o 'https\?://[^"]*' page/index.html | grep -v '^http://www.w3.org/2000/svg$'
    # names of files are text, not markup
    cp data.csv '<img src=x onerror=alert(1)>.csv'
    zt-train --new sequential --set dModel=3 --set numClasses=2 -i '<img src=x onerror=alert(1)>.csv' --loss cross_entropy --epochs 1 \
        -o other.json --report other >log
    timeout 100 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --virtual-time-budget=2000 \
        --dump-dom "file://$PWD/other/index.html" >dom 2>console
    grep -q 'on &lt;img src=x onerror=alert(1)&gt;.csv' dom
    ! grep -q '<img' dom
}
