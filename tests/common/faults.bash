# faults.bash - tools while memory or disk is short: `load ../common/faults` after the helper.

# The tools with one allocation refused are in ./refusing (tests/tools/plant/allocation.c).
make_refusing() {
    mkdir -p refusing
    for tool in zt-run zt-convert zt-quant zt-bench zt-trace zt-dna zt-train; do ln -sf "$(realpath "$tests/zt-refusing")" refusing/$tool; done
}

# What a failure must be: one line of the tool, and its status.
fails_with() { # STATUS TOOL WORD...: of stderr in ./err and the status in $code
    [ "$code" -eq "$1" ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "^$2: " err && shift 2 && for word; do grep -qF -- "$word" err || return 1; done
}

# Each line of stdin is a command whose outputs are new files. With some of its allocations refused, one a run, it fails with
# 75 and one line, and leaves nothing but what `may_stay` (a regular expression of names) has; or it does without the memory,
# and its outputs are the same. $refusals of them for each command, with the first and the last three; all with ZT_LONG.
refuse_allocations() {
    local line tool count step n code before names
    while IFS= read -r line; do
        tool=${line%% *}
        before=$(ls -A)
        ZT_ALLOCATIONS=allocations refusing/$line >out 2>err </dev/null || { cat err; echo "fails: $line"; return 1; }
        count=$(cat allocations)
        names=$(comm -13 <(sort <<<"$before") <(ls -A | grep -vxE 'allocations|out|err' | sort))
        rm -rf want && mkdir want
        [ -z "$names" ] || (IFS=$'\n'; mv $names want)
        step=1
        [ -n "${ZT_LONG-}" ] || step=$((count / ${refusals:-12} + 1))
        for ((n = 1; n <= count; n += n < 4 || n > count - 3 ? 1 : n + step > count - 2 ? count - 2 - n : step)); do
            code=0
            ZT_REFUSE=$n refusing/$line >out 2>err </dev/null || code=$?
            if [ $code -eq 0 ]; then
                for name in $names; do diff -r -q "want/$name" "$name" >/dev/null || differs "$name" || { echo "$n: other outputs: $line"; return 1; }; done
            else
                fails_with 75 $tool 'out of memory' || { echo "allocation $n of $count: $code $(cat err): $line"; return 1; }
                [ -z "$(comm -13 <(sort <<<"$before") <(ls -A | grep -vxE "allocations|out|err|want|${may_stay:-none}" | sort))" ] ||
                    { echo "allocation $n of $count: something is left: $(ls -A): $line"; return 1; }
            fi
            while_failed "$line" || { echo "allocation $n of $count: $line"; return 1; }
            (IFS=$'\n'; [ -z "$names" ] || rm -rf $names)
        done
        rm -rf want out err allocations
    done
}

# Overridden where outputs may differ, and where there is more to check after a run.
differs() { false; }
while_failed() { :; }
