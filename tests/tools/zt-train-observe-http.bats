#!/usr/bin/env bats
# zt-train --observe URL and --observe-window: events to an HTTP server, which never delays or changes a run.

load ../common/helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    zt-train --version | grep -q . || false
    awk 'BEGIN {srand(5); for (i = 0; i < 64; i++) print rand() "," rand() "," rand() "," rand() "," i % 3}' >data.csv
}

teardown() {
    [ -z "${server-}" ] || kill "$server" 2>/dev/null || true
}

serve() { # [STATUS [SECONDS]]: $url
    rm -f port
    python3 "$BATS_TEST_DIRNAME/observe/server.py" port record "$@" 3>&- &
    server=$!
    for _ in {1..600}; do [ -s port ] && break; sleep .1; done
    url=http://127.0.0.1:$(cat port)/events
}

train() { # OPTION...
    zt-train --new sequential --set dModel=4 --set numClasses=3 -i data.csv --loss cross_entropy --batch 8 --epochs 3 "$@" >/dev/null
}

needs_curl() {
    run --separate-stderr train --observe http://127.0.0.1:9/ -o probe.json -f
    [ "$status" != 69 ] || skip "zt was built without libcurl, or the library is not there"
}

@test "all events arrive, in order, as NDJSON in few requests; the network is the same" {
    needs_curl
    serve
    train -o plain.json
    train -o file.json --observe events.ndjson
    train -o seen.json --observe "$url" 2>note
    cmp plain.json seen.json
    cmp events.ndjson record
    [ ! -s note ]
    [ "$(wc -l <record.head)" -lt 20 ]
    grep -q ' application/x-ndjson /events$' record.head
    zt-train --eval -m plain.json -i data.csv --observe "$url" >/dev/null
    grep -q '"mode":"eval"' record
}

@test "a server that is not there: the run ends well, in time, and says how many events were lost" {
    needs_curl
    SECONDS=0
    train -o out.json --observe http://user:secret@127.0.0.1:9/x 2>note
    [ "$SECONDS" -lt 60 ]
    grep -q 'warning: --observe: 192 of 192 events were not delivered to http://127.0.0.1:9/x: ' note
    ! grep -q secret note
}

@test "a server that refuses: events are lost; one that fails is tried again" {
    needs_curl
    serve 404
    train -o out.json --observe "$url" 2>note
    grep -q '192 of 192 events were not delivered .*: the server answered 404' note
    kill "$server"
    rm record*
    serve 503
    train -o out.json -f --observe "$url" 2>note
    grep -q 'the server answered 503' note
    [ "$(sort record | uniq -c | awk '$1 == 3' | wc -l)" -gt 0 ]
}

@test "a server that does not answer costs five seconds at the end, and no event of a run waits for it" {
    needs_curl
    serve 200 600
    SECONDS=0
    train -o out.json --observe "$url" 2>note
    [ "$SECONDS" -lt 120 ] # however slow the machine is, less than the server
    grep -q 'events were not delivered' note
}

@test "windows: one event for several steps, the last one for the rest" {
    train -o a.json --observe each.ndjson
    train -o b.json --observe window.ndjson --observe-window 5
    [ "$(wc -l <each.ndjson)" = 192 ]
    [ "$(wc -l <window.ndjson)" = 40 ] # 24 steps: 5 events of 8 lines
    [ "$(grep -c '"window":5,' window.ndjson)" = 32 ]
    [ "$(grep -c '"window":4,' window.ndjson)" = 8 ]
    python3 - <<'E'
import json
each = [json.loads(line) for line in open("each.ndjson")]
window = [json.loads(line) for line in open("window.ndjson")]
for event in window:
    key = lambda e: (e["type"], e["z"], e["y"], e["x"], e["l"])
    first = event["step_count"] - event["window"]
    own = [e["stats"] for e in each if key(e) == key(event) and first < e["step_count"] <= event["step_count"]]
    assert len(own) == event["window"]
    stats = event["stats"]
    assert stats["max"] == max(s["max"] for s in own) and stats["min"] == min(s["min"] for s in own)
    assert stats["active"] == sum(s["active"] for s in own) and stats["total"] == sum(s["total"] for s in own)
    mean = sum(s["avg"] * s["total"] for s in own) / stats["total"]
    assert abs(stats["avg"] - mean) <= 1e-6 * max(1, abs(mean)), (stats["avg"], mean)
E
}

@test "what is refused: URLs that are none, a window without events" {
    needs_curl
    run -64 --separate-stderr train -o out.json --observe 'http://[::1'
    run -64 --separate-stderr train -o out.json --observe-window 3
    [ ! -e out.json ]
}
