# zt-bench: see walk.pl. Figures are left out of what is compared.
my $times = sub { join "\n", map { s/-?\d+\.?\d*([e-]+\d+)?/N/gr =~ s/ +/ /gr =~ s/\t(slower|faster|same|unsure)\b/\tverdict/gr } split /\n/, $_[0] };
my @short = qw(-r 1 -t 1 --no-roof);
my @op = ("op", "neg f32[64]", @short);
my $vs = {value => 5, code => 64};    # of two subjects
{
    tool => "zt-bench",
    make => q{
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 model.gguf
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 --type f32 other.gguf
        for i in {1..30}; do printf 'hello on the she in there %d ' $i; done >text.txt
        for i in {1..30}; do printf 'there in she the on hello %d ' $i; done >text2.txt
        echo 'add f32[8] f32[8]' >ops
        printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'y = neg x' 'out y = y' >p.zt
        zt-bench op 'neg f32[64]' -r 3 -t 1 --no-roof --format json --history kept.sqlite >old.json
        zt-bench model -m model.gguf -p 2 -n 2 -d 0,4 -r 1 -t 1 --no-roof --format json >depth.json
        for i in 1 2 3; do zt-bench op 'neg f32[64]' -r 2 -t 1 --no-roof --history kept.sqlite >/dev/null; done
        perl -pe 's/("(median|min|max|mad)":|[\[,])([0-9.]+)/$1 . ($3 * 2)/ge' old.json >new.json
    },
    flags => [],
    modes => {
        machine => {run => [qw(machine)], slow => "a run takes seconds: tests/tools/zt-bench.bats", wrong => "here"},
        model => {run => [qw(model -m model.gguf -p 8 -n 2), @short], same => $times},
        op => {run => \@op, same => $times},
        run => {run => [qw(run -r 1 -- true)], same => $times},
        kld => {run => [qw(kld model.gguf other.gguf -i text.txt -c 32)], same => $times},
        compare => {run => [qw(compare old.json old.json)], same => $times},
        plot => {run => [qw(plot depth.json)]},
        history => {run => [qw(history kept.sqlite)], same => $times},
    },
    all => {
        "--model" => {value => "none.gguf", code => 66},
        "--prompt" => {value => 9, says => qr/pp9\b/},
        "--generate" => {value => 3, says => qr/tg3\b/},
        "--depth" => {value => 5, says => qr/tg2\@d5\b/},
        "--reps" => {value => 3, with => [qw(--format json)], says => qr/"samples":\[[^\],]+,[^\],]+,[^\],]+\]/},
        "--input" => {run => ["op", @short], value => "ops", says => qr/add f32/},
        "--ctx" => {value => 16, same => sub { $_[0] }},
        "--bind" => {run => ["op", "p.zt", "--bind", "n=3", @short], value => "m=3", code => 64},
        "--ops" => {value => "eager", reason => "other times: tests/tools/zt-bench.bats"},
        "--exact" => {reason => "other times: tests/tools/zt-bench-kld.bats has the figures"},
        "--energy" => (-r "/sys/class/powercap/intel-rapl:0/energy_uj" ? {says => qr/watts/} : {code => 69}),
        "--commit" => {value => "a1", with => [qw(--history h.sqlite)], reason => "kept there: tests/tools/zt-bench-history.bats"},
        "--trend" => {},
        "--last" => {value => 2, with => [qw(--trend --ascii)]},
        "--ascii" => {with => [qw(--trend)], reason => "by the locale: tests/tools/zt-bench-history.bats"},
        "--kv" => {value => "f16,f32", says => qr/tg2 kv=f32/},
        "--chunk" => {value => "2,4", says => qr/pp8 chunk=4/},
        "--no-roof" => {says => qr/roof_share":/, with => [qw(--format json)]},
        "--history" => {value => "h.sqlite"},
        "--plot" => {value => "p.svg"},
        "--threshold" => {value => "x", code => 64},    # it is read
        "--output" => {value => "results"},
        "--force" => {with => [qw(--output results)], there => "results"},
        "--threads" => {value => 2, says => qr/threads":2|\b2\t/, with => [qw(--format json)]},
        "--isa" => {value => "scalar", with => [qw(--format json)], says => qr/"isa":"scalar"/},
        "--seed" => {value => 5, reason => "draws of the interval of a comparison: tests/tools/bench_ratio.c"},
        "--format" => {value => "json"},
        "--color" => {value => "never", terminal => 1},
    },
    in => {
        machine => {"--threads" => {value => 1}, "--reps" => {value => 1}, "--engine" => {value => "cpu"}},
        compare => {"--bind" => {value => "n=1"},
            "--commit" => {run => ["compare", "--vs", "neg f32[64]", "neg f32[32]", qw(-r 3 -t 1 --history h.sqlite)], value => "a1", with => [], reason => "kept there: tests/tools/zt-bench-history.bats"}, "--force" => {with => [qw(--output results)], there => "results"}},
        model => {"--engine" => {value => "cpu,ref", says => qr/^ref\tpp8\b/m}, "--plot" => {run => [qw(model -m model.gguf -p 8 -n 2 -r 1 -t 1)], value => "p.svg"},
            "--vs" => {run => [qw(model model.gguf other.gguf -p 8 -n 2 -r 3 -t 1)]}, "--seed" => $vs, "--threshold" => $vs},
        op => {"--seed" => $vs, "--threshold" => $vs, "--progress" => {value => "always", run => ["op", "neg f32[64]", "-r", 3, "-t", 1, "--no-roof"]}, "--plot" => {run => ["op", "neg f32[64]", "-r", 1, "-t", 1], value => "p.svg"},
            "--vs" => {run => ["op", "neg f32[64]", "neg f32[32]", "-r", 3, "-t", 1]}},
        run => {"--seed" => $vs, "--threshold" => $vs, "--reps" => {value => 3, with => [qw(--format json)], says => qr/"samples":\[[^\],]+,[^\],]+,[^\],]+\]/}, "--vs" => {run => [qw(run true true -r 3)]}, "--ignore-failure" => {run => [qw(run -r 1 -- false)]},
            "--warmup" => {value => -1, code => 64}, "--prepare" => {value => "false", code => 65},
            "--parameter-scan" => {value => "s=1,2", run => [qw(run -r 1 -- sh -c), ": {s}"], says => qr/wall s=2/}},
        kld => {
            "--input" => {value => "text2.txt", same => sub { $_[0] }},
            "--from" => {value => 3, same => sub { $_[0] }},
            "--threads" => {value => 2, with => [qw(--format json)], says => qr/threads":2/},
        },
    },
};
