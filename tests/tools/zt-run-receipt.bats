#!/usr/bin/env bats
# zt-run --receipt and --verify: what a receipt holds, what is found in a changed one, and from where.

bats_require_minimum_version 1.5.0
load ../common/helper

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    "$ZT_TESTS/mkmodel" --arch llama --ctx 256 model.gguf
    "$ZT_TESTS/mkmodel" --arch llama --ctx 256 --seed 1 other.gguf
    zt-run -q -m model.gguf --raw -n 70 -p 'hello on the' --seed 5 --stop "never this" --receipt r.json >text
}

setup() { cd "$BATS_FILE_TMPDIR"; }

# verify FILE... : the row of the table without its head
verify() { zt-run -q -m model.gguf --verify "$@" | tail -1 | tr '\t' ' '; }
# edit PERL: r.json changed
edit() { perl -MJSON::PP -0777 -ne '$j = JSON::PP->new->canonical; $r = $j->decode($_); '"$1"'; print $j->encode($r)' r.json >edited.json; }

@test "a receipt states what was generated, and is verified" {
    perl -MJSON::PP -0777 -ne '$r = decode_json($_); exit !($r->{schema} eq "zt.receipt/1" && @{$r->{tokens}} == 70 && @{$r->{chain}} == 6
        && $r->{stop} eq "length" && $r->{seed} eq "5" && $r->{every} == 16 && $r->{settings}{n} == 70)' r.json
    [ "$(perl -MJSON::PP -0777 -ne 'print join " ", @{decode_json($_)->{tokens}}' r.json)" = \
        "$(zt-run -q -m model.gguf --raw -n 70 -p 'hello on the' --seed 5 --ids)" ]
    [ "$(verify r.json)" = "same 0 70 70  " ]
    [ "$(zt-run -m model.gguf --verify - <r.json | tail -1 | cut -f1)" = same ]
}

@test "the same receipt with drafts, one thread, other chunks, other instructions, and a session" {
    for how in --speculate "-t 1" "--chunk 1" "--isa avx2" "--session s" "--session s" --no-kv-cache; do
        zt-run -q -f -m model.gguf --raw -n 70 -p 'hello on the' --seed 5 --stop "never this" $how --receipt same.json >text.2
        cmp <(sed 's/"isa":"[a-z0-9]*"//' r.json) <(sed 's/"isa":"[a-z0-9]*"//' same.json)
        cmp text text.2
    done
}

@test "greedy, exact, penalties, stop strings, ends and contexts are verified" {
    for how in "-n 60 --temp 0" "-n 60 --temp 0 --exact" "-n 60 --kv f32" "-n 60 --repeat-penalty 1.3 --frequency-penalty .5" \
        "-n 60 --stop e" "-n 60 --eos 284,290" "-c 40" "-n 60 --ignore-eos --temp 3" "-n 0" "-n 16" "-n 17"; do
        zt-run -q -f -m model.gguf --raw -p 'hello on the' $how --receipt how.json >text.3
        [ "$(verify how.json | cut -d' ' -f1)" = same ]
        count=$(perl -MJSON::PP -0777 -ne 'print scalar @{decode_json($_)->{tokens}}' how.json)
        [ "$(verify how.json --from $((count / 2)) -n 1 | cut -d' ' -f1)" = same ]
    done
}

@test "a receipt is checked with any instruction set, whatever the weights" {
    for type in f32 f16 bf16 iq2_xs q4_1; do
        "$tests/mkmodel" --width 256 --head 64 --ffn 256 --type $type isa.gguf
        zt-run -q -f -m isa.gguf --raw -n 20 -p hello --receipt isa.json >text.4
        for isa in $(zt-run --version | sed -n 's/^instructions: //p'); do
            zt-run -m isa.gguf --isa "$isa" --verify isa.json >row 2>err
            [ "$(tail -1 row | cut -f1)" = same ]
            [ ! -s err ]
        done
    done
}

@test "parts: from a link to a link" {
    [ "$(verify r.json --from 40)" = "same 32 70 70  " ]
    [ "$(verify r.json --from 40 -n 3)" = "same 32 48 70  " ]
    [ "$(verify r.json --from 70)" = "same 64 70 70  " ]
    run -64 --separate-stderr zt-run -m model.gguf --verify r.json --from 71
    [ "$stderr" = "zt-run: option '--from': 71: the receipt has 70 tokens" ]
}

@test "what is changed is found, and where" {
    for change in '$r->{settings}{temp} = 1.5' '$r->{seed} = "6"' '$r->{prompt}[1]++' '$r->{settings}{n} = 71' '$r->{model} =~ tr/0/1/'; do
        edit "$change"
        [ "$(verify edited.json)" = "different 0 0 70 head " ]
    done
    edit '$r->{tokens}[37] = $r->{tokens}[37] == 290 ? 291 : 290'
    [ "$(verify edited.json)" = "different 0 37 70 token 37" ]
    [ "$(verify edited.json --from 48 | cut -d' ' -f1)" = different ]
    edit '$r->{chain}[3] =~ tr/0-9a-f/1-9a-f0/'
    [ "$(verify edited.json)" = "different 0 32 70 logits 32" ]
    edit '$#{$r->{tokens}} = 63; $#{$r->{chain}} = 4'
    [ "$(verify edited.json)" = "different 0 64 64 stop 64" ]
    edit '$r->{stop} = "eos"'
    [ "$(verify edited.json)" = "different 0 70 70 stop 70" ]
    run -1 --separate-stderr zt-run -m other.gguf --verify r.json
    [ "$(tail -1 <<<"$output" | tr '\t' ' ')" = "different 0 0 70 model " ]
}

@test "structured output: the receipt has the grammar, and is verified with it, in whole and in part" {
    printf 'root ::= "[" item ("," item)* "]"\nitem ::= [a-z]+ | [0-9]+\n' >list.gbnf
    echo '{"type":"object","properties":{"name":{"type":"string"},"list":{"type":"array","items":{"type":"integer"},"minItems":9}}}' >s.json
    for how in "--grammar list.gbnf" "--json-schema s.json" "--regex [a-f]+(,[a-f]+){20}" "--choices hello goodbye" "--grammar - --speculate"; do
        # shellcheck disable=SC2086
        zt-run -q -f -m model.gguf --raw -n 60 -p 'hello on the' --seed 2 $how --receipt form.json <list.gbnf >held
        [ "$(verify form.json | cut -d' ' -f1)" = same ]
        count=$(perl -MJSON::PP -0777 -ne 'print scalar @{decode_json($_)->{tokens}}' form.json)
        for from in 16 33 $((count / 2)); do
            [ "$from" -gt "$count" ] || [ "$(verify form.json --from "$from" | cut -d' ' -f1)" = same ]
        done
    done
    perl -MJSON::PP -MDigest::SHA=sha256_hex -0777 -ne '$f = decode_json($_)->{settings}{form}; exit !($f->{kind} eq "grammar" && @{$f->{texts}} == 1
        && $f->{digest} eq sha256_hex($f->{texts}[0] . "\0"))' form.json
    cp form.json r.kept
    mv r.json r.before
    mv form.json r.json
    for change in '$r->{settings}{form}{texts}[0] =~ s/,/;/' '$r->{settings}{form}{digest} =~ tr/0-9a-f/1-9a-f0/' 'delete $r->{settings}{form}' \
        '$r->{settings}{form}{kind} = "regex"'; do
        edit "$change"
        [ "$(verify edited.json | cut -d' ' -f1-3,5-)" = "different 0 0 head " ]
    done
    edit '$r->{tokens}[37] = $r->{tokens}[36] == 290 ? 291 : 290'
    [ "$(verify edited.json | cut -d' ' -f1-3,5-)" = "different 0 37 token 37" ]
    edit '$r->{tokens}[7] = 1' # not one that the grammar allows: found although it is before the part
    [ "$(verify edited.json --from 48 | cut -d' ' -f1,5-)" = "different token 7" ]
    for change in '$r->{settings}{form} = 5' '$r->{settings}{form}{kind} = "x"' '$r->{settings}{form}{texts} = []' '$r->{settings}{form}{texts}[0] = 7' \
        '$r->{settings}{form}{digest} = "ff"' '$r->{settings}{form}{texts}[1] = "root ::= 1"'; do
        edit "$change"
        run -65 --separate-stderr zt-run -m model.gguf --verify edited.json
        [ "$(wc -l <<<"$stderr")" -eq 1 ]
    done
    mv r.before r.json
}

@test "a weight of another bit is another model" {
    perl -0777 -pe 'substr($_, -100, 1) ^= "\x01"' model.gguf >bit.gguf
    run -1 --separate-stderr zt-run -m bit.gguf --verify r.json
    [ "$(tail -1 <<<"$output" | cut -f1,5)" = "different	model" ]
}

@test "the model's digest is the same in every container" {
    zt-convert -q model.gguf back.gguf 2>/dev/null || cp model.gguf back.gguf
    zt-run -q -f -m back.gguf --raw -n 2 -p hello --receipt b.json >/dev/null
    [ "$(grep -o '"model":"[0-9a-f]*"' b.json)" = "$(grep -o '"model":"[0-9a-f]*"' r.json)" ]
}

@test "an adapter is part of the model" {
    "$ZT_TESTS/mkmodel" --arch llama --ctx 256 --seed 1 tuned.gguf
    zt-dna -q lora --rank 4 model.gguf tuned.gguf -o adapter.gguf
    zt-run -q -m model.gguf --lora adapter.gguf --raw -n 20 -p hello --receipt l.json >/dev/null
    [ "$(verify l.json --lora adapter.gguf | cut -d' ' -f1)" = same ]
    run -1 --separate-stderr zt-run -m model.gguf --verify l.json
}

@test "files that are no receipts: 65, one line; another arithmetic: 69" {
    for change in 'delete $r->{schema}' '$r->{schema} = "zt.receipt/9"' 'delete $r->{settings}' '$r->{settings} = 3' '$r->{settings}{temp} = "x"' \
        '$r->{settings}{temp} = -1' '$r->{settings}{ctx} = 0' '$r->{settings}{n} = -5' '$r->{settings}{kv} = "q3"' '$r->{settings}{ends} = [-1]' \
        '$r->{settings}{stop} = [""]' '$r->{settings}{stop} = 7' '$r->{settings}{turn} = 7' '$r->{settings}{exact} = 1' '$r->{seed} = "-1"' \
        '$r->{seed} = "99999999999999999999"' '$r->{seed} = 5' '$r->{every} = 0' '$r->{every} = 1e9' '$r->{prompt} = []' '$r->{prompt} = [1.5]' \
        '$r->{prompt} = [-1]' '$r->{prompt} = [2147483647]' '$r->{tokens} = {}' '$r->{tokens} = [1,2,3]' '$r->{chain} = []' '$r->{chain}[1] = "ff"' \
        '$r->{chain}[1] = 5' '$r->{model} = "0"' 'delete $r->{stop}' '$r = [$r]'; do
        edit "$change"
        run -65 --separate-stderr zt-run -m model.gguf --verify edited.json || { echo "$change: $status $output $stderr"; false; }
        [ "$(wc -l <<<"$stderr")" -eq 1 ]
    done
    edit '$r->{arithmetic} = 99'
    run -69 --separate-stderr zt-run -m model.gguf --verify edited.json
    [ "$stderr" = "zt-run: edited.json: a receipt of arithmetic 99: this zt-run has arithmetic $(zt-run --version | sed -n 's/^arithmetic: //p')" ]
    echo '{' >edited.json
    run -65 --separate-stderr zt-run -m model.gguf --verify edited.json
    run -66 --separate-stderr zt-run -m model.gguf --verify none.json
}

@test "other engines, and no libcrypto: 69" {
    run -69 --separate-stderr zt-run -m model.gguf --engine ref --raw -n 2 -p a --receipt x.json
    [ "${stderr##*$'\n'}" = "zt-run: --receipt: engine ref does not promise the same bits everywhere: use --strict-bits or --engine cpu" ]
    run -69 --separate-stderr env ZT_LIBCRYPTO=/none.so zt-run -m model.gguf --raw -n 2 -p a --receipt x.json
    [ "${stderr##*$'\n'}" = "zt-run: SHA-256 needs libcrypto, not found as /none.so: install the package libssl3" ]
    run -69 --separate-stderr env ZT_LIBCRYPTO=libm.so.6 zt-run -m model.gguf --raw -n 2 -p a --receipt x.json
    [ ! -e x.json ]
}

@test "a receipt that exists is kept without --force" {
    cp r.json kept.json
    run -73 --separate-stderr zt-run -m model.gguf --raw -n 2 -p a --receipt kept.json
    cmp r.json kept.json
}

@test "receipts of random settings are verified, and what is changed in them is found" {
    perl "$BATS_TEST_DIRNAME/receipts.pl" "$([ -n "${ZT_LONG-}" ] && echo 200 || echo 12)"
}
