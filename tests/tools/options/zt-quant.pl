# zt-quant: see walk.pl.
my $times = sub { $_[0] =~ s/\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ//gr };
{
    tool => "zt-quant",
    make => q{
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 --type f32 model.gguf
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 --type f32 --seed 3 other.gguf
        for i in {1..60}; do printf 'hello on the she in there %d ' $i; done >text.txt
        for i in {1..60}; do printf 'there in she the on hello %d ' $i; done >text2.txt
        zt-quant -q --make-imatrix -m model.gguf -i text.txt -o m.gguf
        printf 'attn_v=q8_0\n' >types.txt
        printf '.=f16\n' >net.txt
        zt-train -q --new sequential --set dModel=4 --set numClasses=2 -i <(printf '1,2,3,4,1,0\n4,3,2,1,0,1\n') --epochs 0 -o net.json >/dev/null
    },
    flags => [qw(--dry-run --measure --make-imatrix --list-types)],
    modes => {
        quantize => {run => [qw(--type q4_0 --no-history model.gguf out.gguf)], same => $times},
        measure => {run => [qw(--type q4_0 --measure model.gguf)]},
        "dry-run" => {run => [qw(--type q4_0 --dry-run model.gguf)]},
        network => {run => [qw(--type int8 --no-history net.json out.json)], same => $times},
        imatrix => {run => [qw(--make-imatrix -m model.gguf -i text.txt -o imatrix.gguf)], same => $times},
        types => {run => ["--list-types"]},
    },
    all => {
        "--type" => {value => "q5_0"},
        "--tensor-type" => {value => "*attn_v*=q8_0"},
        "--tensor-type-file" => {value => "types.txt"},
        "--token-embedding-type" => {value => "q5_1"},
        "--output-tensor-type" => {value => "q5_1"},
        "--scale" => {run => [qw(--type fp8_e4m3 --no-history model.gguf out.safetensors)], value => "tensor"},
        "--rule" => {value => "loom", code => 64},    # it is of networks
        "--pure" => {},
        "--target-size" => {run => [qw(--no-history model.gguf out.gguf)], value => "200K"},
        "--bpw" => {run => [qw(--no-history model.gguf out.gguf)], value => 6},
        "--imatrix" => {value => "m.gguf"},
        "--strict" => {with => [qw(--tensor-type *=q4_k)]},
        "--to" => {value => "safetensors"},
        "--model" => {value => "other.gguf"},
        "--input" => {value => "text2.txt"},
        "--ctx" => {value => 16},
        "--output" => {run => [qw(--type q4_0 --no-history model.gguf)], value => "other.gguf"},
        "--force" => {there => "out.gguf"},
        "--color" => {value => "never", terminal => 1},
    },
    in => {
        quantize => {"--dry-run" => {}, "--measure" => {}},
        measure => {
            "--scale" => {run => [qw(--type fp8_e4m3 --measure model.gguf)], value => "tensor"},
            "--target-size" => {run => [qw(--measure model.gguf)], value => "200K"},
            "--bpw" => {run => [qw(--measure model.gguf)], value => 6},
            "--to" => {value => "safetensors", with => ["out.x"]},
            "--no-history" => {with => ["out.gguf"], same => $times},
            "--output" => {value => "other.gguf"},
            "--force" => {with => ["there"], there => "there"},
        },
        "dry-run" => {
            "--threads" => {value => 3, run => [qw(--target-size 200K --dry-run model.gguf)], tasks => 1},
            "--progress" => {value => "always", run => [qw(--target-size 200K --dry-run model.gguf)]},
            "--scale" => {run => [qw(--type fp8_e4m3 --dry-run model.gguf)], value => "tensor"},
            "--target-size" => {run => [qw(--dry-run model.gguf)], value => "200K"},
            "--bpw" => {run => [qw(--dry-run model.gguf)], value => 6},
        },
        network => {
            "--dry-run" => {}, "--measure" => {},
            "--target-size" => {value => "1M", code => 64},    # of a type that is given
            "--bpw" => {value => 6, code => 64},
            "--type" => {value => "int4"},
            "--tensor-type" => {value => "*=f16"},
            "--tensor-type-file" => {value => "net.txt"},
            "--token-embedding-type" => {value => "q5_1", code => 64},    # networks have none
            "--output-tensor-type" => {value => "q5_1", code => 64},
            "--rule" => {value => "loom"},
            "--force" => {there => "out.json"},
            "--output" => {run => [qw(--type int8 --no-history net.json)], value => "new.json"},
        },
        imatrix => {
            "--output" => {value => "other.gguf"},
            "--force" => {there => "imatrix.gguf"},
            "--isa" => {value => "scalar", reason => "the same bits by other instructions: tests/engine/conformance.c"},
        },
    },
};
