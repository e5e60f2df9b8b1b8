#!/usr/bin/env bats
# zt-run --serve: OpenAI's API over HTTP. The clients are in tests/tools/serve/check.py.

load ../common/helper

setup_file() {
    make_models
    long=$BATS_FILE_TMPDIR/long.gguf
    "$tests/mkmodel" --arch llama --ctx 32768 "$long"
    export long
}

setup() {
    in_own_folder
    server=
    command -v curl >/dev/null || skip "no curl"
    python=${ZT_PYTHON:-python3}
    command -v "$python" >/dev/null || skip "no python3 for a client"
    [[ $bin == /* ]] || PATH=$repo/$bin:$PATH
    grep -q '^HAVE_MICROHTTPD := 0' "$(dirname "$(command -v zt-run)")/../config.mk" 2>/dev/null && skip "built without libmicrohttpd"
    libraries=$(PATH=$PATH:/sbin ldconfig -p 2>/dev/null) || libraries=
    [[ -z $libraries || $libraries == *libmicrohttpd.so.12* ]] || skip "no libmicrohttpd.so.12"
}

teardown() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
}

# Starts a server on the socket `s`, and waits until it answers.
start() { # options...
    zt-run -m model.gguf --serve unix:s "$@" 2>err 3>&- &
    server=$!
    export SERVER=$server
    await
}

# The same on a port that the system chooses: $url.
start_tcp() { # options...
    zt-run -m model.gguf --serve 127.0.0.1:0 "$@" 2>err 3>&- &
    server=$!
    for _ in {1..1200}; do grep -q listening err && break; sleep .1; done
    url=$(sed -n 's/.*listening on //p' err)
    [ -n "$url" ]
    for _ in {1..600}; do curl -sf "$url/health" >health 2>/dev/null && return; sleep .1; done
    return 1
}

await() {
    for _ in {1..600}; do
        curl -sf --unix-socket s http://localhost/health >health 2>/dev/null && return
        kill -0 "$server" 2>/dev/null || { cat err; return 1; }
        sleep .1
    done
    return 1
}

client() { # scenario [arguments...]
    "$python" "$BATS_TEST_DIRNAME/serve/check.py" "$1" s "${@:2}"
}

# Ends the server by a signal, and checks its exit code.
stop() { # code [signal]
    local code=0
    kill "-${2:-TERM}" "$server"
    wait "$server" || code=$?
    server=
    cat err
    [ $code -eq "$1" ]
}

post() { # path body [curl's options...]
    curl -s --unix-socket s -H 'Content-Type: application/json' -d "$2" "${@:3}" "http://localhost$1"
}

# ---- answers -----------------------------------------------------------------------------------------

@test "completions, chats and streams have the text of --jsonl" {
    start
    client parity
    stop 0
    [ "$(cat err)" = 'zt-run: listening on unix:s' ]
}

@test "the same with a small cache, another seed and another template" {
    start --seed 0 -c 200 --template gemma --exact
    client parity -c 200 --template gemma --exact
    stop 0
}

@test "the objects have the members of OpenAI's API; /metrics counts" {
    start
    client form
    stop 0
}

@test "embeddings are those of --embed" {
    start
    client embeddings
    stop 0
}

@test "an encoder has embeddings only" {
    rm model.gguf
    "$tests/mkmodel" --arch bert model.gguf
    start
    client encoder
    stop 0
}

@test "curl: a completion, a stream, the list of models" {
    start
    post /v1/completions '{"prompt":"hello on the","max_tokens":8,"temperature":0}' | json '$j->{usage}{completion_tokens} == 8'
    post /v1/completions '{"prompt":"hello on the","max_tokens":8,"temperature":0,"stream":true}' -N >stream
    [ "$(grep -c '^data: ' stream)" -ge 3 ]
    [ "$(grep . stream | tail -1)" = 'data: [DONE]' ]
    curl -s --unix-socket s http://localhost/v1/models | json '$j->{data}[0]{id} eq "model"'
    stop 0
}

@test "64 clients at once get what each gets alone" {
    start
    client crowd
    stop 0
}

# Starts a server whose template has tools.
calling_template() {
    ln -sf "$long" model.gguf
    echo '{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_calls }} {% endfor %}{% if tools %}{{ tools|length }}{% endif %} as <tool_call>{..}</tool_call>:' >calling.jinja
}

@test "tools: whole answers and streams have the calls of --jsonl; 64 clients at once, too" {
    calling_template
    start --template calling.jinja -c 2000
    client tools --template calling.jinja -c 2000
    client tools_crowd --template calling.jinja -c 2000
    client tools_refused
    stop 0
}

@test "OpenAI's Python client: tools, in streams, too" {
    "$python" -c 'import openai' 2>/dev/null || skip "no Python package openai"
    calling_template
    start_tcp --template calling.jinja -c 2000
    "$python" "$BATS_TEST_DIRNAME/serve/check.py" openai_tools "$url"
    stop 0
}

@test "OpenAI's Python client: models, chat, streams, completions, embeddings, errors" {
    "$python" -c 'import openai' 2>/dev/null || skip "no Python package openai"
    start_tcp
    "$python" "$BATS_TEST_DIRNAME/serve/check.py" openai_client "$url"
    stop 0
}

# ---- refusals ----------------------------------------------------------------------------------------

@test "a request that is wrong is refused by name, and the server goes on" {
    start -c 256
    client refusals
    stop 0
}

@test "mutated bodies are answered, and the server goes on" {
    start
    client hostile 500
    stop 0
}

@test "a body longer than --max-body is refused" {
    start --max-body 1000
    client oversized
    stop 0
}

@test "--api-key-file: without a key of it 401, except for /health" {
    printf '# keys\nsecret1\n\nsecret2\n' >keys
    start --api-key-file keys
    client keys
    stop 0
    ! grep -q secret err
}

@test "a page of the web cannot use a server on loopback: Host and Content-Type" {
    start_tcp
    [ "$(curl -s -o body -w '%{http_code}' "$url/health")" = 200 ]
    [ "$(curl -s -o body -w '%{http_code}' -H 'Host: evil.example' "$url/v1/models")" = 421 ]
    [ "$(curl -s -o body -w '%{http_code}' -H 'Host: localhost:80' "$url/v1/models")" = 200 ]
    [ "$(curl -s -o body -w '%{http_code}' -d '{"prompt":"a"}' "$url/v1/completions")" = 415 ]
    ! curl -s -D - -o body "$url/v1/models" | grep -qi access-control
    stop 0
}

# ---- limits ------------------------------------------------------------------------------------------

@test "a client that goes takes its texts along" {
    ln -sf "$long" model.gguf
    start -c 32000
    client cancelled -c 32000
    stop 0
}

@test "a long prompt that becomes tokens does not stop texts that run" {
    ln -sf "$long" model.gguf
    start -c 32000
    client smooth
    stop 0
}

@test "a stream that nobody reads is cut" {
    ln -sf "$long" model.gguf
    start -c 32000
    client slow_reader
    stop 0
}

@test "an answer of more than 16 MiB is refused" {
    ln -sf "$long" model.gguf
    start -c 32000 -v
    client long_answer
    stop 0
    grep -q '^zt-run: /v1/completions: 400 after' err
}

@test "--queue: one more is refused with 429" {
    ln -sf "$long" model.gguf
    start -c 32000 --queue 2
    client queue_full
    stop 0
}

@test "--timeout: what takes longer is cut" {
    ln -sf "$long" model.gguf
    start -c 32000 --timeout 1
    client late
    stop 0
}

@test "memory is flat over 2,000 requests with tools" {
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "a sanitizer keeps what is freed"
    calling_template
    start --template calling.jinja -c 2000
    client tools_flat
    stop 0
}

# The test before has these bodies among its own.
@test "memory is flat over 2,000 requests of texts alone" {
    [ -n "${ZT_LONG-}" ] || skip "in make long"
    ! grep -qs fsanitize "$(dirname "$bin")/flags" || skip "a sanitizer keeps what is freed"
    start
    client flat
    stop 0
}

# ---- the end -----------------------------------------------------------------------------------------

held() { # options: a stream that the server's end ends
    "$python" "$BATS_TEST_DIRNAME/serve/check.py" hold s "${1:-{\}}" >held &
    holder=$!
    for _ in {1..1200}; do grep -q begun held && break; sleep .1; done
    grep -q begun held
}

@test "SIGTERM: what runs is finished, and the exit code is 0" {
    ln -sf "$long" model.gguf
    start -c 32000
    held '{"max_tokens":120}'
    stop 0
    wait $holder
    [ "$(tail -1 held)" = 'data: [DONE]' ]
    [ ! -e s ]
}

@test "a second signal cuts what runs" {
    ln -sf "$long" model.gguf
    start -c 32000
    held '{"n":32}'
    kill -TERM "$server"
    sleep .3
    kill -0 "$server"
    ! curl -s -m 5 --unix-socket s http://localhost/health
    stop 0
    wait $holder
    [[ $(tail -1 held) == *'the server is stopping'* ]]
}

@test "SIGINT ends as SIGTERM does, with 130" {
    code=0
    interrupt_when 'curl -sf --unix-socket s http://localhost/health >/dev/null' zt-run -m model.gguf --serve unix:s || code=$?
    [ $code -eq 130 ]
    [ ! -e s ]
}

@test "kill -9: the next server takes the socket that is left; one that is in use is refused" {
    start
    [ "$(stat -c %a s)" = 600 ]
    run --separate-stderr zt-run -m model.gguf --serve unix:s
    [ "$status" -eq 73 ]
    one_message zt-run
    [[ $stderr == *'in use'* ]]
    await
    kill -9 "$server"
    wait "$server" || true
    [ -S s ]
    start
    client parity
    stop 0
    [ ! -e s ]
    echo kept >s
    run --separate-stderr zt-run -m model.gguf --serve unix:s
    [ "$status" -eq 73 ]
    [ "$(cat s)" = kept ]
}

@test "misuse is one line" {
    : >empty
    printf 'a b\n' >blank
    all_refused zt-run <<'END'
64|ADDR:PORT|-m model.gguf --serve here
64|ADDR:PORT|-m model.gguf --serve 127.0.0.1:70000
64|ADDR:PORT|-m model.gguf --serve=example.com:80
64|1 to 107 bytes|-m model.gguf --serve unix:
64|'--prompt' does not apply to --serve|-m model.gguf --serve -p x
64|'--output' does not apply to --serve|-m model.gguf --serve -o x
64|exclude each other|-m model.gguf --serve --jsonl
64|'--queue' does not apply to --jsonl|-m model.gguf --jsonl --queue 3
64|more than 64MiB|-m model.gguf --serve --max-body 65MiB
64|from 1 to|-m model.gguf --serve --queue 0
66|none|-m model.gguf --serve unix:s --api-key-file none
65|no key in it|-m model.gguf --serve unix:s --api-key-file empty
65|blank|-m model.gguf --serve unix:s --api-key-file blank
73|No such file|-m model.gguf --serve unix:none/s
END
}
