#!/usr/bin/env perl
# calls.pl DRIVER - wrong calls of every public function, as C for tests/api/wrong_use.c, from what prototypes.pl
# prints. DRIVER, that file, names the valid arguments that there are: static TYPE *a_TYPE.
use strict;
use warnings;

my $driver = shift;
my %object;
open my $in, '<', $driver or die "$driver: $!\n";
while (<$in>) { $object{$1} = 1 if /^static (?:const )?\w+ \*a_(\w+);/ }

# What C cannot check. Each with its reason.
# Not called: inside kernels, where threads meet between two parts, a check would cost.
my %hot = map { $_ => 1 } qw(zt_pool_barrier zt_gate_add zt_gate_wait);
# Called with NULL for the object and the memory only.
my %never = (
    zt_free => 'a block that no allocation gave', zt_realloc => 'the same', zt_bins_give => 'the same',
    zt_nn_layer_size => 'a layer of another network'
);
# Called with NULL for what is not an object: the memory behind other pointers would have to be valid.
my %no_scratch = (
    zt_free => 'a block that no allocation gave', zt_realloc => 'the same', zt_bins_give => 'the same',
    zt_gguf_over => 'the same', zt_bound_inputs_free => 'the same', zt_nn_layout_free => 'the same',
    zt_tensor_wrap => 'memory that another owns',
    zt_near_list => 'a list without its end', zt_cost_add => 'roots of another program',
    zt_sandbox_enter => 'paths that are not there',
    zt_dna_sign => 'fewer floats than the layer has', zt_dna_read => 'the same'
);
# Fails without a message: there is no context, or the status is another's.
my %silent = (
    zt_run_schedule_copy => 'an arena does not show its context', zt_npy_write_header => 'the context itself is NULL',
    zt_plan_file_print => 'a program does not show its context',
    zt_template_pieces => 'without a model there is no context', zt_template_next => 'the same', zt_template_render => 'the same',
    zt_train_load => 'no such file: no message, by its contract',
    zt_faults_pass => 'returns the status that it is given'
);
# A count, by its parameter's name: huge together with a valid array is an array that is too short.
my $count = qr/^(?:n|n_\w+|\w*count|\w*bytes|\w*size|len|least|max|cap|k|V|T|rows|cols|columns|choices|length|rank|expect|limit)$/;
# These release an object: a process a call.
my $ends = qr/_(?:free|close|unref|fini|release|take|forget|of_gguf|gguf|with_shards|end|commit)$|^zt_ctx_|^zt_mem_|_fault|_trace$|^zt_engine_
    |^zt_sink_(?:write|copy)$|^zt_writer_(?:copy|put_tensor)$|^zt_gguf_put_|^zt_sandbox_enter/x; # the last: one failure is the object's for good
# Objects that these return are made, and say why they are not; others are looked up.
my $makes = qr/_(?:new|open|open_\w+|from|take|parse|view|bind|of_made|program|prog|part)$/;

sub integer { my ($type, $how) = @_;
    if ($type eq 'zt_bytes') { return $how eq 'zero' ? '(zt_bytes){0}' : '(zt_bytes){.data = "text", .n = 4}' }
    my $unsigned = $type =~ /^(?:size_t|unsigned|u?int\d+_t|uint\w+)$/ && $type !~ /^int/;
    return "($type)0" if $how eq 'zero';
    return "($type)1" if $how eq 'one';
    if ($type =~ /^(?:double|float)$/) { return $how eq 'negative' ? "($type)-1" : "($type)NAN" }
    return "($type)-1" if $how eq 'negative';
    return "INT64_MAX" if $type eq 'int64_t';
    return "($type)0x7fffffff" if $type =~ /^int(32_t)?$/ or $type =~ /^zt_/;
    return "(_Bool)1" if $type eq '_Bool';
    return "($type)127" if $type eq 'char';
    return "($type)(~($type)0 / 2)";
}

print "/* Made by tests/api/calls.pl. */\n";
my @table;
while (<STDIN>) {
    chomp;
    my ($name, $header, $type, @args) = split /\t/;
    next if $hot{$name};
    my @parameter;
    for my $a (@args) {
        if ($a eq '...') { push @parameter, {kind => 'more'}; next }
        my $p;
        my $opaque = $a =~ s/^opaque //;
        if ($a =~ /\(\*\w*\)/) { $p = {kind => 'function'} }
        elsif ($a =~ /^(?:const )?(\w+_fn|zt_wanted) \*/) { $p = {kind => 'function'} }
        elsif ($a =~ /^(?:const )?(?:struct )?(\w+) \*\w*$/ && $object{$1}) { $p = {kind => 'object', text => "a_$1"} }
        elsif ($opaque) { $p = {kind => 'function'} } # nothing but NULL
        elsif ($a =~ /^const char \*\w*$/) { $p = {kind => 'pointer', text => '"text"'} }
        elsif ($a =~ /[*\[]|^zt_near_hint/) { $p = {kind => 'pointer', text => '(void *)(scratch + ' . 4096 * @parameter . ')'} }
        else { my ($t, $n) = $a =~ /^(.*?)\s*(\w+)$/; $p = {kind => 'integer', type => $t, name => $n} }
        push @parameter, $p;
    }
    my (@variant, %seen);
    my $pointers = grep { $_->{kind} =~ /pointer|object/ } @parameter;
    my $made_of_op = $name =~ /^zt_(?:build|program|eager)_/ && @parameter > 2 && $header =~ m{ops/ops\.h|prog/prog\.h|run/run\.h};
    my $add = sub { # integers, object, pointer, index of the exception, its text
        my ($integers, $objects, $pointers, $exception, $text) = @_;
        my ($valid, @list) = (0);
        for my $i (0 .. $#parameter) {
            my $p = $parameter[$i];
            if (defined $exception && $i == $exception) { push @list, $text; next }
            if ($p->{kind} eq 'more') { next }
            elsif ($p->{kind} eq 'function') { push @list, 'NULL' }
            elsif ($p->{kind} eq 'object') { push @list, $objects ? $p->{text} : 'NULL'; $valid = 1 if $objects && $i == 0 && !$silent{$name} }
            elsif ($p->{kind} eq 'pointer') { push @list, $pointers ? $p->{text} : 'NULL' }
            else {
                my $unsigned = $p->{type} =~ /^(?:size_t|unsigned|uint\d+_t)$/;
                my $how = $integers eq 'negative' && $pointers && ($unsigned || $p->{name} =~ $count && $p->{type} =~ /^u|size_t/) ? 'zero' : $integers;
                push @list, integer($p->{type}, $how);
            }
        }
        my $call = join ', ', @list;
        push @variant, [$call, $valid] if !$seen{"$call|$valid"}++;
    };
    $add->($_, 0, 0) for qw(zero negative huge);
    if ($pointers && !$never{$name}) {
        $add->($_, 1, 0) for qw(zero negative huge one);
        if (!$no_scratch{$name}) {
            $add->($_, 1, 1) for $made_of_op ? qw(negative) : qw(zero one negative);
            for my $i ($made_of_op ? () : 0 .. $#parameter) {
                my $p = $parameter[$i];
                $add->('one', 1, 1, $i, 'NULL') if $p->{kind} =~ /pointer|object/;
                next unless $p->{kind} eq 'integer' && $p->{name} !~ $count;
                $add->('one', 1, 1, $i, integer($p->{type}, $_)) for qw(negative huge);
            }
        }
    }
    my $macro = $type eq 'void' ? 'NOTHING' : $type eq 'zt_status' ? 'STATUS'
        : $type =~ /^zt_\w+ \*$/ && $name =~ $makes ? 'OBJECT' : 'OTHER';
    print "static void call_$name(int variant)\n{\n    switch (variant) {\n";
    for my $v (0 .. $#variant) {
        my ($call, $valid) = @{$variant[$v]};
        print "    case $v: valid_ctx = ", ($valid ? 'true' : 'false'), "; $macro(\"$name\", $name($call)); break;\n";
    }
    print "    }\n}\n";
    push @table, "    {\"$name\", " . scalar(@variant) . ", call_$name, " . ($name =~ $ends ? 'true' : 'false') . "},\n";
}
print "/* Every valid argument. */\n#define ALL ", join(", ", map { "{\"$_\", a_$_}" } sort keys %object), "\n";
print "static const wrong_function wrong_functions[] = {\n", @table, "};\n";
