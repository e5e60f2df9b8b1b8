# zt-convert: see walk.pl.
my $as_output = {value => "gguf", code => 64};    # then it is no change in place, and the output is missing
{
    tool => "zt-convert",
    make => q{
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 model.gguf
        perl -e 'my $h = q({"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[3],"data_offsets":[24,36]}});
            print pack("Q<", length $h), $h, pack("f<*", 1 .. 9)' >net.safetensors
        openssl genpkey -algorithm ed25519 -out key.pem
        openssl genpkey -algorithm ed25519 -out other.pem
        openssl pkey -in key.pem -pubout -out key.pub
        openssl pkey -in other.pem -pubout -out other.pub
        echo 'open sesame' >password
        openssl pkcs8 -topk8 -in key.pem -passout file:password -out locked.pem
        mkdir links && ln -s ../model.gguf links/
        zt-convert --sign key.pem model.gguf
        zt-convert --sign key.pem net.safetensors
    },
    flags => [qw(--list --meta --check --hash --cat --sign --verify-signature --probe --blueprint)],
    modes => {
        convert => {run => [qw(--no-history model.gguf out.safetensors)]},
        edit => {run => [qw(--set x=1 copy.gguf)], copy => {"copy.gguf" => "model.gguf"}},
        list => {run => [qw(--list model.gguf)]},
        meta => {run => [qw(--meta model.gguf)]},
        check => {run => [qw(--check model.gguf)]},
        hash => {run => [qw(--hash model.gguf)]},
        cat => {run => [qw(--cat output_norm.weight model.gguf)]},
        sign => {run => [qw(--sign key.pem -o out.sig model.gguf)]},
        verify => {run => [qw(--verify-signature model.gguf.sig --public-key key.pub model.gguf)]},
        probe => {run => [qw(--probe net.safetensors)]},
        blueprint => {run => [qw(--blueprint net.safetensors)]},
        mount => {run => [qw(net.safetensors out.json)]},
        folder => {run => [qw(model.gguf out/)]},
    },
    all => {
        "--to" => {value => "npz"},
        "--dtype" => {value => "f16"},
        "--select" => {value => "blk.0.*"},
        "--drop" => {value => "blk.0.*"},
        "--rename" => {value => "blk.*=layer.*"},
        "--set" => {value => "some.key=7"},
        "--unset" => {value => "llama.*"},
        "--shard" => {value => "40K"},
        "--by" => {value => "dtype"},
        "--cat" => {value => "token_embd.weight"},
        "--sign" => {value => "other.pem"},
        "--verify-signature" => {value => "net.safetensors.sig", code => 1},
        "--hint" => {value => "0=Dense"},
        "--output" => {run => ["--no-history", "model.gguf"], value => "result.safetensors"},
        "--force" => {there => "out.safetensors"},
        "--format" => {value => "json"},
        "--color" => {value => "never", terminal => 1},
    },
    in => {
        convert => {"--no-history" => {run => [qw(model.gguf out.safetensors)], same => sub { $_[0] =~ s/\d\d:\d\d:\d\dZ//r }}},
        cat => {
            "--output" => {value => "result.npy"},
            "--force" => {with => ["--output", "there"], there => "there"},
        },
        sign => {
            "--output" => {run => [qw(--sign key.pem -o out.sig model.gguf)], value => "new.sig"},
            "--force" => {there => "out.sig"},
            "--password-file" => {run => [qw(--sign locked.pem -o out.sig model.gguf)], value => "password"},
            "--allow-symlinks" => {run => [qw(--sign key.pem -o out.sig links)]},
        },
        verify => {
            "--public-key" => {value => "other.pub", code => 1},
            "--ca-certificates" => {value => "key.pub", code => 64},
        },
        edit => {
            map({($_ => {%{$as_output}})} qw(--to --dtype --select --drop)), "--shard" => {value => "4K", code => 64},
            "--progress" => {value => "always", reason => "there is none where no more than the header changes"},
        },
        folder => {
            map({($_ => {value => "a", fails => 1})} qw(--list --meta --check --hash --cat --sign --verify-signature --probe --blueprint)),
            "--to" => {value => "gguf", run => [qw(model.gguf out/)]},
            "--dtype" => {value => "bf16"},
            "--output" => {run => ["model.gguf"], value => "new/"},
        },
        mount => {
            map({($_ => {value => "a", fails => 1})} qw(--list --meta --check --hash --cat --sign --verify-signature --probe --blueprint)),    # of one file
            "--output" => {run => ["net.safetensors"], value => "new.json"},
            "--to" => {value => "json", run => [qw(net.safetensors out.npz)]},
            "--force" => {there => "out.json"},
            "--external-data" => {},
        },
    },
};
