# zt-convert: see walk.pl.
{
    tool => "zt-convert",
    make => q{
        "$ZT_TESTS/mkmodel" --arch llama --ctx 64 model.gguf
        perl -e 'my $h = q({"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[3],"data_offsets":[24,36]}});
            print pack("Q<", length $h), $h, pack("f<*", 1 .. 9)' >net.safetensors
    },
    flags => [qw(--list --meta --check --hash --cat --probe --blueprint)],
    modes => {
        convert => {run => [qw(--no-history model.gguf out.safetensors)]},
        edit => {run => [qw(--set x=1 copy.gguf)]},
        list => {run => [qw(--list model.gguf)]},
        meta => {run => [qw(--meta model.gguf)]},
        check => {run => [qw(--check model.gguf)]},
        hash => {run => [qw(--hash model.gguf)]},
        cat => {run => [qw(--cat output_norm.weight model.gguf)]},
        probe => {run => [qw(--probe net.safetensors)]},
        blueprint => {run => [qw(--blueprint net.safetensors)]},
        mount => {run => [qw(net.safetensors out.json)]},
        folder => {run => [qw(--no-history model.gguf out/)]},
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
        "--hint" => {value => "0=Dense"},
        "--output" => {value => "result.npy"},
        "--format" => {value => "json"},
        "--color" => {value => "never", terminal => 1},
    },
    in => {},
};
