# zt-trace: see walk.pl.
my $times = sub { $_[0] =~ s/\d+\.?\d*(e-?\d+)?/N/gr };
my @bind = qw(--bind n=3,ctx=32);
{
    tool => "zt-trace",
    make => q{
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 model.gguf
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 --layers 3 other.gguf
        printf '%s\n' 'zt program 1' 'in x: f32[n,64]' 'data w: f32[64,64] "w"' 'state c: f32[ctx,64]' \
            'h = linear x w' 'z = neg h' 'z2 = neg h' 'u = tanh z' 'v = add u z2' 's = sum v' 'keep c = c' 'out y = v' 'out s = s' >run.zt
        grep -v ' c' run.zt | sed 's/^keep.*//; s/ctx/n/' >grad.zt
        sed 's/\[n,/[3,/' grad.zt >fixed.zt
        sed 's/"w"/"token_embd.weight"/; s/f32\[64,64\] /q8_0[300,64] /' run.zt >named.zt
        echo '{"depth":1,"rows":1,"cols":1,"layers_per_cell":1,"layers":[{"type":"Dense","input_height":2,"output_height":3}]}' >net.json
        zt-trace record -m model.gguf -p hello --times times.ndjson >/dev/null
        zt-trace record -m model.gguf -p hello -o timed.zt
        printf '%s\n' 'zt program 1' 'in x: f32[n,64]' 'out x = x' >x.zt
        printf '%s\n' 'zt program 1' 'in w: f32[64,64]' 'out w = w' >w.zt
        perl -e 'print join(",", map {$_ / 64} 1 .. 64), "\n" for 1 .. 3' | zt-run -m x.zt -o x.npz
        perl -e 'print join(",", map {$_ / 640} 1 .. 64), "\n" for 1 .. 64' | zt-run -m w.zt -o w.npz
    },
    flags => [],
    modes => {
        record => {run => [qw(record -m model.gguf -p hello --values v.npz)]},
        show => {run => ["show", "run.zt"]},
        stats => {run => ["stats", @bind, "run.zt"], same => sub { join "\n", sort split /\n/, $times->($_[0]) }},
        dot => {run => ["dot", "run.zt"]},
        chrome => {run => ["chrome", @bind, "run.zt"], same => $times},
        memory => {run => ["memory", @bind, "run.zt"]},
        diff => {run => ["diff", @bind, "run.zt"]},
        grad => {run => ["grad", "--wrt", "w", "--of", "s", "grad.zt"]},
        compile => {run => ["compile", @bind, "run.zt"]},
    },
    all => {
        "--model" => {value => "none.gguf", code => 66},    # it is opened
        "--input" => {value => "none.npz", code => 66},
        "--data" => {value => "none.npz", code => 66},
        "--bind" => {value => "n=4,ctx=64"},
        "--times" => {value => "none", code => 66},
        "--seed" => {value => 5},
        "--color" => {value => "never", terminal => 1},
    },
    in => {
        record => {
            "--model" => {value => "other.gguf"},
            "--prompt" => {value => "hello there"},
            "--forward" => {run => [qw(record -m model.gguf)]},
            "--steps" => {value => "2..5"},
            "--at" => {value => 2},
            "--values" => {value => "u.npz"},
            "--times" => {value => "t.ndjson"},
            "--ctx" => {value => 32, reason => "other constants of models for long contexts: tests/llm/architectures.c"},
            "--kv" => {value => "f32"},
            "--cycles" => {run => [qw(record -m net.json)], value => 3},
            "--isa" => {value => "scalar", reason => "the same bits by other instructions: tests/engine/conformance.c"},
            "--force" => {there => "v.npz"},
        },
        show => {"--bind" => {value => "n=4,ctx=64"}},
        dot => {"--bind" => {value => "n=4,ctx=64"}},
        stats => {
            "--by" => {value => "step"},
            "--bind" => {value => "n=4,ctx=64", says => qr/\t32768\t/},
            "--seed" => {value => 5, reason => "other numbers in the inputs take the same time"},
            "--isa" => {value => "scalar", reason => "the figures are those of these instructions"},
        },
        chrome => {
            "--bind" => {value => "n=4,ctx=64", says => qr/\[4,64\]/},
            "--seed" => {value => 5, reason => "other numbers in the inputs take the same time"},
            "--isa" => {value => "scalar", reason => "the times are those of these instructions"},
        },
        memory => {"--isa" => {value => "scalar", reason => "these ops need the same scratch memory with any instructions"}},
        compile => {
            "--model" => {value => "none.gguf", with => ["--report"], code => 66},
            "--input" => {value => "none.npz", with => ["--report"], code => 66},
            "--data" => {value => "none.npz", with => ["--report"], code => 66},
            "--seed" => {value => 5, with => ["--report"], reason => "the numbers that are drawn for the passes' times"},
        },
        diff => {
            "--replay" => {value => "u"},
            "--color" => {value => "never", terminal => 1, with => ["--all"]},
            "--isa" => {value => "scalar", with => ["--all"], reason => "the same bits by other instructions: tests/engine/conformance.c"},
            "--seed" => {value => 5, with => ["--all"]},
            "--output" => {value => "case.zt", with => ["--replay", "u"]},
            "--force" => {with => ["--replay", "u", "--output", "case.zt"], there => "case.zt"},
        },
        grad => {
            "--wrt" => {value => "x"},
            "--of" => {value => "y"},
            "--bind" => {value => "n=4", reason => "sizes that choose the order of products, here one"},
            "--seeds" => {run => [qw(grad --wrt w --of s fixed.zt)]},
        },
    },
};
