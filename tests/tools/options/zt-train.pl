# zt-train: see walk.pl.
my $times = sub { $_[0] =~ s/"seconds":[0-9.e-]+//gr =~ s/\d\d:\d\d:\d\dZ//gr };
my @net = qw(-m net.zt -i data.csv --loss cross_entropy --epochs 2 -o out.npz);
my @new = qw(--new sequential -i data.csv --loss cross_entropy --epochs 1 -o out.json --set dModel=4 --set numClasses=3);
my @tune = qw(--text text.txt -m tiny.gguf -c 16 --batch 8 --epochs 1 -o out.gguf);
my @text = qw(--text text.txt --size 60K --vocab 290 -c 16 --batch 8 --epochs 1 -o out.gguf);
my @compare = qw(compare --new sequential -i data.csv --loss cross_entropy --epochs 2 --set dModel=4 --set numClasses=3 --methods backprop,target-prop);
my $measured = sub { join "\n", map { join "\t", (split /\t/)[0 .. 6] } split /\n/, $_[0] };
my @cluster = qw(cluster -i x.csv --clusters 3);
my @outputs = qw(cluster -m net.json -i x.csv --clusters 3);
{
    tool => "zt-train",
    make => q{
        printf '%s\n' 'zt program 1' 'in x: f32[n,4]' 'data w0: f32[16,4] "first.w"' 'data b0: f32[16] "first.b"' \
            'data w1: f32[3,16] "second.w"' 'h = linear x w0 b0' 'a = tanh h' 'y = linear a w1' 'out y = y' >net.zt
        sed 's/tanh/relu/' net.zt >other.zt
        awk 'BEGIN {srand(5); for (i = 0; i < 60; i++) {m = 0; line = ""
            for (k = 0; k < 4; k++) {v[k] = int(2000 * rand() - 1000) / 1000; line = line v[k] ","}
            for (k = 1; k < 3; k++) if (v[k] > v[m]) m = k
            print line m}}' >data.csv
        tail -n 40 data.csv >other.csv
        cut -d, -f1-4 data.csv >x.csv
        cut -d, -f5 data.csv >t.csv
        printf '%s\n' 'zt program 1' 'in a: f32[n,4]' 'out a = a' >x.zt
        printf '%s\n' 'zt program 1' 'in a: i64[n]' 'out a = a' >t.zt
        zt-run -m x.zt -i x.csv -o x.npy
        zt-run -m t.zt -i t.csv -o t.npy
        printf 'The text of a small house, and the words in the house.\n%.0s' {1..20} >text.txt
        tac text.txt | sed 's/house/mouse/' >text2.txt
        zt-train -q --text text.txt --size 60K --vocab 290 -c 16 --batch 8 --epochs 1 -o tiny.gguf >/dev/null
        zt-train -q -m net.zt -i data.csv --loss cross_entropy --epochs 1 -o w.npz >/dev/null
        zt-train -q --new sequential -i data.csv --loss cross_entropy --epochs 1 --set dModel=4 --set numClasses=3 -o net.json >/dev/null
        zt-train -q --new sequential -i data.csv --loss cross_entropy --epochs 1 --set dModel=4 --set numClasses=3 --seed 7 -o other.json >/dev/null
    },
    flags => [qw(--eval --text)],
    modes => {
        program => {run => \@net, same => $times},
        network => {run => \@new, same => $times},
        text => {run => \@text, same => $times},
        eval => {run => [qw(--eval -m net.zt --data w.npz -i data.csv)]},
        cluster => {run => \@cluster},
        compare => {run => \@compare, same => $measured},
    },
    all => {
        "--model" => {value => "other.zt"},
        "--new" => {value => "cnn", fails => 1},
        "--input" => {value => "other.csv"},
        "--target" => {run => [map {s/data.csv/x.npy/r} @net], value => "t.npy"},
        "--data" => {value => "w.npz"},
        "--lora" => {value => "2,4", run => \@tune}, "--lora-targets" => {value => "all-linear", with => [qw(--lora 2,4)], run => \@tune},
        "--vocab" => {value => 270}, "--ctx" => {value => 8}, "--size" => {value => "90K"},
        "--text" => {value => "text2.txt"},
        "--loss" => {value => "mse"},
        "--method" => {value => "target-prop", run => \@new},
        "--track" => {value => 7, with => ["--no-shuffle"]},
        "--tasks" => {value => "20,40", with => [qw(--no-shuffle --track 7)]},
        "--ensemble" => {value => "majority", run => [qw(--eval -m net.json -m other.json -i data.csv)]},
        "--min-coverage" => {value => 1, run => [qw(--eval -m net.json -m other.json -i data.csv --ensemble pairs)]},
        "--targets" => {value => "plain", run => [@new, qw(--method target-prop)]},
        "--gradient-scale" => {value => 5, run => [@new, qw(--method target-prop-chain)]},
        "--cycles" => {value => 8, run => [@new, qw(--method systolic --feed once)]},
        "--feed" => {value => "once", run => [@new, qw(--method systolic --cycles 8)]},
        "--optim" => {value => "adam"},
        "--lr" => {value => .5},
        "--lr-find" => {value => 10, run => [qw(-m net.zt -i data.csv --loss cross_entropy)]},
        "--schedule" => {value => "linear"},
        "--lr-min" => {value => .01, with => [qw(--schedule cosine)]},
        "--warmup" => {value => 3},
        "--momentum" => {value => .5},
        "--weight-decay" => {value => .5},
        "--clip" => {value => .001},
        "--epochs" => {value => 3},
        "--batch" => {value => 4},
        "--accumulate" => {value => 3},
        "--scale" => {value => 2},
        "--valid" => {value => "other.csv"},
        "--valid-target" => {value => "t.npy", with => [qw(--valid x.npy)]},
        "--patience" => {value => 1, with => [qw(--lr 1000)], run => [map {$_ eq "2" ? 9 : $_} @net]},
        "--checkpoint" => {value => "ck"},
        "--checkpoint-every" => {value => 1, with => [qw(--checkpoint ck)]},
        "--resume" => {with => [qw(--checkpoint ck)]},
        "--receipt" => {value => "there", there => "there"},
        "--verify" => {value => "none.json"},
        "--observe" => {value => "o.ndjson", run => \@new},
        "--observe-window" => {value => 3, run => [@new, qw(--observe o.ndjson)]},
        "--plot" => {value => "l.svg"},
        "--report" => {value => "page"},
        "--stats" => {says => qr/^zt-train: steps +[1-9]/m},
        "--output" => {value => "new.npz"},
        "--force" => {there => "out.npz"},
        "--isa" => {value => "scalar", reason => "other instructions: by their last bits where the sums are long"},
        "--color" => {value => "never", terminal => 1},
    },
    in => {
        program => {"--set" => {value => "dModel=8", code => 64}, "--new" => {value => "cnn", code => 64}},
        network => {
            "--patience" => {value => 1, run => [map {$_ eq "1" ? 9 : $_} @new], with => [qw(--lr 1000)]},
            "--valid-target" => {value => "t.npy", with => [qw(--valid x.npy)]},
            "--model" => {value => "net.zt", code => 64},
            "--set" => {value => "dModel=8", run => [qw(--new sequential -i data.csv --loss cross_entropy --epochs 1 -o out.json --set numClasses=3)]},
            "--target" => {run => [map {s/data.csv/x.npy/r} @new], value => "t.npy"},
            "--data" => {value => "w.npz", code => 64},
            "--output" => {value => "new.json"},
            "--force" => {there => "out.json"},
        },
        text => {
            "--model" => {run => [qw(--text text.txt -c 16 --batch 8 --epochs 1 -o out.gguf)], value => "none.gguf", code => 66},
            "--patience" => {value => 1, run => [map {$_ eq "1" ? 9 : $_} @text], with => [qw(--lr 1)]},
            "--arch" => {value => "qwen2"},
            "--size" => {value => "200K"},
            "--lr" => {value => .05},
            "--output" => {value => "new.gguf"},
            "--force" => {there => "out.gguf"},
            "--warmup" => {value => 30},
        },
        eval => {
            "--target" => {run => [qw(--eval -m net.zt --data w.npz -i x.npy)], value => "t.npy"},
            "--data" => {value => "none.npz", code => 66},
            "--force" => {there => "o.ndjson", run => [qw(--eval -m net.json -i data.csv --observe o.ndjson)]},
            "--observe" => {value => "o.ndjson", run => [qw(--eval -m net.json -i data.csv)]},
            "--observe-window" => {value => 2, run => [qw(--eval -m net.json -i data.csv --observe o.ndjson)]},
            "--seed" => {value => 5, run => [qw(--eval -m net.zt -i data.csv)]},
            "--batch" => {value => 4, reason => "so many rows at a time, to the same results"},
            "--isa" => {value => "scalar", reason => "the same classes by other instructions"},
        },
        compare => {
            "--model" => {value => "net.zt", code => 64},
            "--set" => {value => "dModel=8", run => [qw(compare --new sequential -i data.csv --loss cross_entropy --epochs 1 --set numClasses=3 --methods backprop)]},
            "--target" => {run => [map {s/data.csv/x.npy/r} @compare], value => "t.npy"},
            "--methods" => {value => "backprop"},
            "--seeds" => {value => 2},
            "--target-accuracy" => {value => 1, reason => "the time to it: tests/tools/zt-train-compare.bats"},
            "--targets" => {value => "plain"},
            "--gradient-scale" => {value => 5, run => [map {s/target-prop/target-prop-chain/r} @compare]},
            "--cycles" => {value => 8, run => [map {s/target-prop/systolic/r} @compare], with => [qw(--feed once)]},
            "--feed" => {value => "once", run => [map {s/target-prop/systolic/r} @compare], with => [qw(--cycles 8)]},
            "--force" => {there => "l.svg", run => [@compare, qw(--plot l.svg)]},
            "--valid-target" => {value => "t.npy", with => [qw(--valid x.npy)]},
            "--format" => {value => "json"},
        },
        cluster => {
            "--model" => {value => "net.json"},
            "--input" => {value => "t.csv"},
            "--target" => {value => "t.npy", run => [qw(cluster -i x.npy --clusters 3)], with => ["--labels"]},
            "--data" => {run => [qw(cluster -m net.zt -i x.csv --clusters 3)], value => "w.npz"},
            "--force" => {there => "l.svg", run => [@cluster, qw(--plot l.svg)]},
            "--scale" => {value => 2},
            "--batch" => {value => 4, run => \@outputs, reason => "so many rows at a time, to the same results"},
            "--engine" => {value => "cuda:7", code => 69, run => \@outputs},
            "--isa" => {value => "scalar", run => \@outputs, reason => "the same clusters by other instructions"},
            "--clusters" => {value => 4, run => [qw(cluster -i x.csv --linkage ward --threshold 1)], code => 64},
            "--linkage" => {value => "ward"},
            "--threshold" => {value => .5, run => [qw(cluster -i x.csv)], with => [qw(--linkage single)]},
            "--distance" => {value => "cosine"},
            "--layer" => {value => "0,0,0,0", run => \@outputs},
            "--start" => {value => "random", run => [@cluster, qw(--restarts 1)]},
            "--restarts" => {value => 1},
            "--silhouette" => {value => 0},
            "--labels" => {run => [qw(cluster -i data.csv --clusters 3)]},
            "--show" => {value => "clusters"},
        },
    },
};
