# What is said of the options that all tools share: see walk.pl.
{
    "--output" => {value => "result.txt"},
    "--force" => {with => ["--output", "there"], there => "there"},
    "--threads" => {value => 3, tasks => 1},
    "--engine" => {value => "cuda:7", code => 69},    # one that is not there: the engine is opened
    "--strict-engine" => {reason => "the processor has every op: tests/run/session.c and vulkan.bats fall back from others"},
    "--strict-bits" => {reason => "the processor has the bits: tests/engine/strict_bits.bats refuses those of others"},
    "--list-devices" => {says => qr/device.*type.*name.*driver/s},
    "--isa" => {value => "scalar"},
    "--compute" => {value => "f16", code => 69},      # the processor has no such numbers
    "--tile" => {value => 1, reason => "another order of the same sums, to the same bits: tests/engine/bits.bats"},
    "--mem-limit" => {value => 1, code => 75},
    "--seed" => {value => 7},
    "--format" => {value => "json"},
    "--color" => {value => "always"},
    "--progress" => {value => "always"},
    "--sandbox" => {value => "off", reason => "it refuses what no run needs: tests/tools/sandbox.bats"},
    "--quiet" => {reason => "there is nothing that it could keep quiet, but errors: tests/tools/cli.c has the rest"},
    "--verbose" => {reason => "messages of any mode go through one function, which tests/tools/cli.c tests"},
    "--help" => {}, "--version" => {}, "--completion" => {value => "bash"},
};
