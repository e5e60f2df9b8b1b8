# zt-dna: see walk.pl.
my $times = sub { $_[0] =~ s/\d\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ//gr };
my @merge = qw(merge --method linear a.gguf b.gguf -o out.gguf);
my @ties = qw(merge --method ties --base a.gguf --density 0.5 b.gguf c.gguf -o out.gguf);
my $size = 'n=0; while read -r l; do n=$((n + ${#l} % 97)); done <{}; echo $n';
my @evolve = ("evolve", "--fitness", $size, qw(--population 8 --generations 3 --kind-rate 0.5 net.json -o run));
my @recipes = ("evolve", "--fitness", $size, qw(--population 4 --generations 1 --perturb-scale 0.3 recipe.yaml -o run));
{
    tool => "zt-dna",
    make => q{
        for m in a:0 b:1 c:2; do "$ZT_TESTS/mkmodel" --arch llama --ctx 64 --type f32 --seed ${m#*:} ${m%:*}.gguf; done
        "$ZT_TESTS/mkmodel" --arch gemma3 --ctx 64 --type f32 g.gguf
        zt-convert -q --no-history --dtype bf16 a.gguf half.gguf
        zt-train -q --new sequential --set dModel=4 --set numClasses=2 -i <(printf '1,2,3,4,1,0\n4,3,2,1,0,1\n') --epochs 0 -o net.json >/dev/null
        zt-train -q --seed 3 --new sequential --set dModel=4 --set numClasses=2 -i <(printf '1,2,3,4,1,0\n4,3,2,1,0,1\n') --epochs 0 -o net2.json >/dev/null
        printf '%s\n' 'merge_method: linear' 'models:' '  - model: b.gguf' '    parameters: {weight: 1}' '  - model: c.gguf' '    parameters: {weight: 1}' >recipe.yaml
        mkdir dir; cp b.gguf dir/d.gguf
        printf '%s\n' 'base_model: a.gguf' 'gate_mode: random' 'experts: [{source_model: b.gguf}, {source_model: c.gguf}]' >experts.yaml
        sed s/b.gguf/d.gguf/ experts.yaml >parted.yaml
        printf '%s\n' 'base_model: a.gguf' 'experts: [{source_model: b.gguf, positive_prompts: [one]}, {source_model: c.gguf, positive_prompts: [two]}]' >prompts.yaml
        sed s/b.gguf/d.gguf/ recipe.yaml >apart.yaml
        zt-quant -q --type int8 net.json net8.json; zt-quant -q --type int8 net2.json other8.json
    },
    flags => [],
    modes => {
        layers => {run => [qw(layers a.gguf)]},
        extract => {run => [qw(extract a.gguf)]},
        compare => {run => [qw(compare a.gguf half.gguf)]},
        lineage => {run => [qw(lineage a.gguf half.gguf b.gguf)]},
        splice => {run => [qw(splice a.gguf b.gguf --no-history -o out.gguf)], same => $times},
        merge => {run => \@merge, same => $times},
        moe => {run => [qw(moe experts.yaml -o out.gguf)]},
        transplant => {run => [qw(transplant a.gguf g.gguf -o out.gguf)]},
        graft => {run => [qw(graft net.json net2.json --no-history -o out.json)]},
        lora => {run => [qw(lora a.gguf b.gguf -o out.gguf)], same => $times},
        mutate => {run => [qw(mutate net.json -o out.json)]},
        evolve => {run => \@evolve},
    },
    all => {
        "--population" => {value => 9},
        "--select" => {value => "blk.0.*"},
        "--threshold" => {value => .999999},
        "--plot" => {value => "p.svg"},
        "--output" => {value => "other.gguf"},
        "--force" => {there => "out.gguf"},
        "--color" => {value => "never", terminal => 1},
        "--seed" => {value => 5},
        "--rule" => {value => "loom"},
        "--to" => {value => "safetensors"},
    },
    in => {
        extract => {
            "--progress" => {value => "always", run => [qw(extract --to json a.gguf)]},
            "--output" => {value => "dna.json"},
            "--force" => {with => ["--output", "dna.json"], there => "dna.json"},
        },
        compare => {"--force" => {with => ["--plot", "p.svg"], there => "p.svg"}},
        lineage => {"--force" => {with => ["--plot", "p.svg"], there => "p.svg"}},
        splice => {
            "--alpha" => {value => .2},
            "--rule" => {with => ["--report", "r.json"], value => "loom"},
            "--ratio" => {value => .2, with => [qw(--mode point)]},
            "--fitness-a" => {value => 3, with => [qw(--fitness-b 1)], },
            "--fitness-b" => {value => 3, with => [qw(--fitness-a 1)], },
            "--seed" => {value => 5, with => [qw(--mode uniform)]},
            "--report" => {value => "r.json"},
            "--no-history" => {},
        },
        merge => {
            "--method" => {value => "slerp"},
            "--config" => {run => [qw(merge -o out.gguf)], value => "recipe.yaml"},
            "--models" => {run => [qw(merge --config apart.yaml -o out.gguf)], value => "dir"},
            "--base" => {run => [qw(merge --method slerp a.gguf b.gguf -o out.gguf)], value => "b.gguf"},
            "--weight" => {value => "0.2,0.8"},
            "--t" => {run => [qw(merge --method slerp a.gguf b.gguf -o out.gguf)], value => .2},
            "--density" => {run => \@ties, value => .2},
            "--gamma" => {run => [qw(merge --method breadcrumbs --base a.gguf --density 0.5 b.gguf c.gguf -o out.gguf)], value => .3},
            "--epsilon" => {run => [qw(merge --method della --base a.gguf --density 0.5 b.gguf c.gguf -o out.gguf)], value => .3},
            "--lambda" => {run => \@ties, value => .3},
            "--scale" => {run => [qw(merge a.gguf -o out.gguf)], value => .5},
            "--param" => {value => "normalize=false"},
            "--type" => {value => "q8_0"},
            "--seed" => {run => [qw(merge --method dare_linear --base a.gguf --density 0.5 b.gguf c.gguf -o out.gguf)], value => 5},
        },
        moe => {
            "--models" => {run => [qw(moe parted.yaml -o out.gguf)], value => "dir"},
            "--threads" => {run => [qw(moe prompts.yaml -o out.gguf)], value => 3, tasks => 1},
        },
        transplant => {
            "--method" => {value => "mean"},
            "--k" => {value => 2},
            "--threads" => {value => 3, tasks => 1},
        },
        graft => {
            "--select" => {value => "none*", fails => 1},    # of types too: what is selected must be there
            "--gate" => {value => "none.json", with => [qw(--combine filter)], code => 66},
            "--combine" => {value => "add"},
            "--output" => {value => "other.json"},
            "--force" => {there => "out.json"},
            "--to" => {value => "npz"},
            "--no-history" => {},
        },
        lora => {"--rank" => {value => 2}},
        mutate => {
            "--output" => {value => "other.json"},
            "--force" => {there => "out.json"},
            "--report" => {value => "r.json"},
            "--perturb-rate" => {value => 0},
            "--perturb-scale" => {value => 2},
            "--noise" => {value => "normal"},
            "--weight-rate" => {value => 0.1},
            "--replace-rate" => {value => 0.9},
            "--activation-rate" => {value => 1},
            "--kind-rate" => {value => 1},
            "--kinds" => {value => "RNN", with => [qw(--kind-rate 1)]},
            "--toggle-rate" => {value => 1},
            "--link-add-rate" => {value => 1},
            "--link-drop-rate" => {value => 1, with => [qw(--link-add-rate 1)]},
        },
        evolve => {
            "--output" => {value => "other"},
            "--progress" => {value => "always"},
            "--force" => {reason => "the directory is new"},
            "--seed" => {value => 5},
            "--mode" => {value => "uniform"},
            "--alpha" => {value => 0.1, reason => "the ranks of the parents decide"},
            "--ratio" => {value => 0.1, with => [qw(--mode point)]},
            "--perturb-rate" => {value => 0},
            "--perturb-scale" => {value => 2},
            "--noise" => {value => "normal"},
            "--weight-rate" => {value => 0.1},
            "--replace-rate" => {value => 0.9},
            "--activation-rate" => {value => 1},
            "--kind-rate" => {value => 0},
            "--kinds" => {value => "RNN"},
            "--toggle-rate" => {value => 1},
            "--link-add-rate" => {value => 1},
            "--link-drop-rate" => {value => 1, with => [qw(--link-add-rate 1)]},
            "--population" => {value => 9},
            "--generations" => {value => 2},
            "--fitness" => {value => "echo 1; : {}"},
            "--jobs" => {value => 2, reason => "the result does not depend on it"},
            "--elites" => {value => 4},
            "--timeout" => {value => 0.2, code => 65,
                            run => ["evolve", "--fitness", "sleep 1; echo 1; : {}", qw(--population 2 --generations 1 net.json -o run)]},
            "--resume" => {reason => "a new run begins"},
            "--minimize" => {},
            "--target" => {value => 1e9, code => 1},
            "--crossover" => {value => 0},
            "--survivors" => {value => 1},
            "--species" => {value => -1},
            "--species-limit" => {value => 1},
            "--stagnation" => {value => 1, run => [map {$_ eq "3" ? 8 : $_} @evolve]},
            "--groups" => {run => \@recipes, value => 3},
            "--genes" => {run => \@recipes, value => "weight=0..9"},
            "--keep" => {reason => "it leaves the files of past generations"},
        },
    },
};
