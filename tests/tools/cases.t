#!/usr/bin/perl
# cases.t - inputs from public bug reports: each has its right value.
#
# Walks the folders of ZT_CASES. What is asked of a folder depends on the files in it, never on its name, so that
# other inputs of the same kinds can be added beside them:
#
#   files in a folder                           what must hold
#   config.json, weights, tokenizer             the GGUF of it has the same tensors and tokenizes and runs as it does, or both are refused
#   NAME-0000i-of-0000n.gguf                    each part opens all of the model, or is 65 and names a part
#   NAME.pt                                     tensor w is f32[3,4], 0 to 11
#   NAME.safetensors                            listed as the reference library lists it: w f32[2,3]; or a pointer, as below
#   a Git LFS pointer                           65, and the line says so
#   NAME.dat beside m.gguf                      an importance matrix that zt-quant takes
#   NAME.expected.json, NAME/tokenizer.model    token ids of each text
#   NAME.expected.safetensors, NAME/, base/     an adapter and the merged tensors that it changes
#   adapter_config.json with modules_to_save    the saved modules replace those of the base
#   NAME.yaml                                   a linear merge of a tied and an untied model, in both orders
#   NAME.jinja, NAME.messages.json, NAME.expected.txt    a chat template and the prompt it makes
#   NAME.jsonl                                  requests without new tokens: no time goes to generating
use strict;
use warnings;
use Cwd 'abs_path';
use File::Basename;
use File::Temp 'tempdir';
use JSON::PP;

my $bin = $ENV{ZT_BIN} || 'build/bin';
my $tests = $ENV{ZT_TESTS} || 'build/tests';
my $cases = $ENV{ZT_CASES} || '';
$_ = abs_path($_) // $_ for $bin, $tests;
my $scratch = tempdir(CLEANUP => 1);
my $json = JSON::PP->new->allow_nonref->canonical;
my ($count, $failed, $made) = (0, 0, 0);

# ---- reports and commands -----------------------------------------------------------------------

sub ok {
    my ($good, $what) = @_;
    $what =~ s/#/\\#/g;
    printf "%sok %d - %s\n", $good ? '' : 'not ', ++$count, $what;
    $failed++ unless $good;
    return $good;
}

sub diag { print map { "# $_\n" } map { split /\n/ } @_ }
sub skip { printf "ok %d # SKIP %s\n", ++$count, shift }
sub fresh { my $name = "$scratch/" . $made++; return @_ ? $name . $_[0] : $name }

sub slurp {
    my ($path) = @_;
    open my $f, '<:raw', $path or return undef;
    local $/;
    return scalar <$f>;
}

# Exit status, standard output and standard error of a tool; {in => TEXT} as the last argument feeds it.
sub tool {
    my ($name, @arguments) = @_;
    my $in = ref $arguments[-1] ? pop(@arguments)->{in} : '';
    my ($from, $to, $errors) = map { fresh() } 1 .. 3;
    open my $f, '>:raw', $from or die "$from: $!";
    print $f $in;
    close $f or die "$from: $!";
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        open STDIN, '<', $from;
        open STDOUT, '>', $to;
        open STDERR, '>', $errors;
        exec "$bin/$name", @arguments or die "$name: $!";
    }
    waitpid $pid, 0;
    return ($? & 127 ? 128 + ($? & 127) : $? >> 8, slurp($to), slurp($errors));
}

# The rows of zt-convert --list: name => "dtype shape"; undef, the status and the message where it is refused.
sub tensors {
    my ($path) = @_;
    my ($status, $out, $errors) = tool('zt-convert', '--list', '--format', 'json', $path);
    return (undef, $status, $errors) if $status;
    my %row = map { ($_->{name} => lc "$_->{dtype} $_->{shape}") } @{$json->decode($out)->{rows}};
    return (\%row, 0, $errors);
}

# The hash of each tensor of a file or directory.
sub hashes {
    my ($path) = @_;
    my ($status, $out, $errors) = tool('zt-convert', '--hash', $path);
    diag($errors) if $status;
    return {map { /^(\S+)\s+(.*)$/ ? ($2 => $1) : () } split /\n/, $out};
}

sub one_line { return scalar(shift =~ /\A[^\n]+\n\z/) }

# The values of an f32 tensor.
sub values_of {
    my ($path, $name) = @_;
    my ($status, $npy, $errors) = tool('zt-convert', '--cat', $name, $path);
    if ($status) { diag($errors); return () }
    my $header = unpack 'v', substr $npy, 8, 2;
    die "not f32: $name" unless substr($npy, 10, $header) =~ /'<f4'/;
    return unpack 'f<*', substr $npy, 10 + $header;
}

sub near {
    my ($a, $b) = @_; # arrays
    return 0 unless @$a && @$a == @$b;
    for my $i (0 .. $#$a) {
        return 0 if abs($a->[$i] - $b->[$i]) > 1e-5 * (1 + abs $b->[$i]);
    }
    return 1;
}

# ---- what is asked ------------------------------------------------------------------------------

sub same_in_gguf {
    my ($dir) = @_;
    my $gguf = fresh('.gguf');
    my ($status, undef, $errors) = tool('zt-convert', $dir, $gguf);
    my @ask = ('--raw', '-n', 0, '--json', '-p', '!"#');
    my ($run_status, $run, $run_errors) = tool('zt-run', '-m', $dir, @ask);
    if ($status || $run_status) {
        ok($status == $run_status && !-e $gguf, 'the directory is refused alike by both: '
            . "zt-convert $status, zt-run $run_status");
        ok(one_line($errors) && one_line($run_errors), 'in one line');
        diag($errors, $run_errors);
        return;
    }
    my ($there) = tensors($dir);
    my ($made) = tensors($gguf);
    ok($there && %$there && $made && "@{[sort keys %$there]}" eq "@{[sort keys %$made]}",
       'the GGUF has the tensors of the directory: ' . scalar keys %{$made || {}});
    my ($gguf_status, $gguf_run, $gguf_errors) = tool('zt-run', '-m', $gguf, @ask);
    ok(!$gguf_status, 'the GGUF runs') or diag($gguf_errors);
    my @ids = map { (tool('zt-run', '-m', $_, '--tokenize', '-p', '!"#$%&(')) [1] } $dir, $gguf;
    ok(length $ids[0] && $ids[0] eq $ids[1], 'and tokenizes alike') or diag(@ids);
    my @logits = map { my $npy = fresh('.npy');
                       tool('zt-run', '-m', $_, '--raw', '-n', 0, '--logits', $npy, '-p', '!"#');
                       slurp($npy) // '' } $dir, $gguf;
    ok(length $logits[0] && $logits[0] eq $logits[1], 'and gives the same logits');
}

sub bin_weights {
    my ($dir) = @_;
    my ($bin_tensors) = tensors("$dir/pytorch_model.bin");
    my ($there) = tensors($dir);
    ok($bin_tensors && $there && keys %$bin_tensors == keys %$there && %$there,
       'the directory has the tensors of its pytorch_model.bin');
}

# The value of split.tensors.count, from the bytes: a number of 32 bits behind its type.
sub promised {
    my $bytes = slurp(shift);
    my $key = 'split.tensors.count';
    my $at = index $bytes, $key;
    return $at < 0 ? undef : unpack 'V', substr $bytes, $at + 4 + length $key, 4;
}

sub each_part {
    my (@parts) = @_;
    for my $part (@parts) {
        my ($rows, $status, $errors) = tensors($part);
        my $promised = promised($part);
        my $whole = $rows && defined $promised && keys %$rows == $promised;
        my $refused = !$rows && $status == 65 && one_line($errors) && $errors =~ /-of-\d+/;
        ok($whole || $refused, basename(dirname($part)) . '/' . basename($part)
            . ($rows ? ' opens ' . keys(%$rows) . ' tensors' : " is refused: $status"));
        diag($errors) if $errors;
        my $single = fresh('.gguf');
        ($status, undef, $errors) = tool('zt-convert', $part, $single);
        if ($rows) {
            my (undef, $single_meta) = tool('zt-convert', '--meta', $single);
            ok(!$status && $single_meta !~ /^split\./m, 'the single file has no split.* keys');
        }
        else { ok($status == 65 && !-e $single, 'and not converted') }
    }
}

sub torch_file {
    my ($pt) = @_;
    my ($rows, $status, $errors) = tensors($pt);
    ok($rows && ($rows->{w} // '') eq 'f32 [3,4]', basename($pt) . ' lists w') or diag($errors, $json->encode($rows));
    my $warnings = () = $errors =~ /\n/g;
    ok($warnings <= 1, 'one warning at most') or diag($errors);
    ok(near([values_of($pt, 'w')], [0 .. 11]), 'w is 0 to 11');
    my $gguf = fresh('.gguf');
    ok((tool('zt-convert', $pt, $gguf))[0] == 0 && near([values_of($gguf, 'w')], [0 .. 11]), 'it converts');
}

sub is_pointer { (slurp(shift) // '') =~ /\Aversion https:\/\/git-lfs/ }

sub pointer {
    my ($file) = @_;
    for (['zt-convert', '--list', $file], ['zt-run', '-m', $file, '-p', 'x'], ['zt-dna', 'extract', $file]) {
        my ($status, $out, $errors) = tool(@$_);
        my $said = $status == 65 && $out eq '' && one_line($errors) && $errors =~ /Git LFS pointer/;
        ok($said, "$_->[0] says what " . basename($file) . ' is') or diag($status, $errors);
    }
}

sub safetensors_file {
    my ($file) = @_;
    return pointer($file) if is_pointer($file);
    my ($rows, $status, $errors) = tensors($file);
    ok($rows && ($rows->{w} // '') eq 'f32 [2,3]', basename($file) . ' lists w') or diag($status, $errors);
}

sub importance {
    my ($dat) = @_;
    my $out = fresh('.gguf');
    my ($status, undef, $errors) = tool('zt-quant', '--type', 'q4_k', '--imatrix', $dat, dirname($dat) . '/m.gguf', $out);
    ok(!$status && -s $out, basename($dat) . ' is taken') or diag($errors);
    my $without = fresh('.gguf');
    tool('zt-quant', '--type', 'q4_k', dirname($dat) . '/m.gguf', $without);
    ok((slurp($out) // '') ne (slurp($without) // ''), 'and has an effect');
}

sub token_ids {
    my ($expected) = @_;
    my ($dir) = $expected =~ /^(.*)\.expected\.json$/;
    my $texts = JSON::PP->new->utf8->decode(slurp($expected));
    my $gguf = fresh('.gguf');
    my ($status, undef, $errors) = tool('zt-convert', $dir, $gguf);
    ok(!$status, basename($dir) . ' converts') or diag($errors);
    for my $model ($dir, "$dir/tokenizer.model", $gguf) {
        my @wrong;
        for my $text (sort keys %$texts) {
            my $bytes = $text;
            utf8::encode($bytes);
            my (undef, $out, $said) = tool('zt-run', '-m', $model, qw(--tokenize --special --no-bos), {in => $bytes});
            chomp $out;
            push @wrong, "$bytes: $out, not @{$texts->{$text}} $said" if $out ne "@{$texts->{$text}}";
        }
        ok(!@wrong, basename($dir) . ' as ' . ($model eq $gguf ? 'GGUF' : basename($model)) . ': ids of sentencepiece')
            or diag(@wrong);
    }
}

# The names of a directory's tensors are those of a GGUF; Hugging Face's names are in its output.
sub merged {
    my ($base, $adapter) = @_;
    my $out = fresh();
    my ($status, undef, $errors) = tool('zt-dna', 'merge', "$base+$adapter", '-o', "$out/", '--type', 'f32');
    ok(!$status, basename($adapter) . ' is applied') or diag($errors);
    return "$out/model.safetensors";
}

sub adapter {
    my ($expected) = @_;
    my ($dir) = $expected =~ /^(.*)\.expected\.safetensors$/;
    my $merged = merged(dirname($dir) . '/base', $dir);
    my ($rows) = tensors($expected);
    my @wrong = grep { !near([values_of($merged, $_)], [values_of($expected, $_)]) } sort keys %$rows;
    ok(%$rows && !@wrong, basename($dir) . ': the merged tensors are those of PEFT: ' . keys(%$rows)) or diag(@wrong);
}

sub saved_modules {
    my ($dir) = @_;
    my ($base) = grep { -e "$_/config.json" } map { "$_/base" } glob "$cases/*"; # a made llama of this shape
    return skip('no base model for the adapter in ' . basename($dir)) unless $base;
    my $saved = $json->decode(slurp("$dir/adapter_config.json"))->{modules_to_save} || [];
    my $merged = merged($base, $dir);
    my ($rows) = tensors("$dir/adapter_model.safetensors");
    for my $module (@$saved) {
        my ($name) = grep { /(^|\.)\Q$module\E(\.modules_to_save(\.default)?)?\.weight$/ } sort keys %$rows;
        my ($target) = grep { /(^|\.)\Q$module\E\.weight$/ } sort keys %{(tensors($merged))[0] || {}};
        ok(defined $name && defined $target
           && near([values_of($merged, $target)], [values_of("$dir/adapter_model.safetensors", $name)]),
           "$module is the adapter's");
    }
}

sub tied_and_untied {
    my ($dir) = @_;
    my @models = map { basename(dirname($_)) } grep { !/base/ } glob "$dir/*/config.json";
    my %heads;
    for my $order ([@models], [reverse @models]) {
        my $recipe = fresh('.yaml');
        open my $f, '>', $recipe or die "$recipe: $!";
        print $f "merge_method: linear\nmodels: [", join(', ', map { "{model: $dir/$_, parameters: {weight: 1}}" } @$order), "]\n";
        close $f;
        my $out = fresh();
        my ($status, undef, $errors) = tool('zt-dna', 'merge', '--config', $recipe, '-o', "$out/", '--type', 'f32');
        ok(!$status, "@$order") or do { diag($errors); next };
        my @head = map { my ($names) = tensors("$dir/$_/model.safetensors");
                         [values_of("$dir/$_/model.safetensors",
                                    $names->{'lm_head.weight'} ? 'lm_head.weight' : 'model.embed_tokens.weight')] } @$order;
        my @mean = map { ($head[0][$_] + $head[1][$_]) / 2 } 0 .. $#{$head[0]};
        ok(near([values_of("$out/model.safetensors", 'lm_head.weight')], \@mean), 'the head is the mean of both');
        ok(!$json->decode(slurp("$out/config.json"))->{tie_word_embeddings}, 'and the child untied');
    }
}

sub chat_template {
    my ($template) = @_;
    my $real = "$ENV{HOME}/.cache/zt/SmolLM2-135M-Instruct.Q4_1.gguf";
    return skip('no SmolLM2 for ' . basename($template)) unless -e $real;
    my ($name) = $template =~ /^(.*)\.jinja$/;
    my $model = fresh('.gguf');
    my $text = slurp($template);
    my ($status, undef, $errors) = tool('zt-convert', '--set', "tokenizer.chat_template=str:$text", $real, $model);
    ok(!$status, basename($name) . ' is put in') or return diag($errors);
    my $request = $json->encode({id => 1, n => 1, logprobs => 5, temp => 0, messages => $json->decode(slurp("$name.messages.json"))});
    my ($ran, $out, $said) = tool('zt-run', '-m', $model, '--jsonl', {in => "$request\n"});
    my $answer = eval { $json->decode($out) } || {};
    # Where the template begins with bos_token, so does the prompt; jinja2 rendered it without one.
    my $right = ($text =~ /^\{\{-?\s*bos_token/ ? '<|im_start|>' : '') . slurp("$name.expected.txt");
    my (undef, $expected) = tool('zt-run', '-m', $real, qw(--raw --special --no-bos --json -n 1 --logprobs 5 --temp 0 -p), $right);
    my $same = $json->decode($expected);
    ok(!$ran && $json->encode([@$answer{qw(prompt_tokens ids logprobs)}]) eq $json->encode([@$same{qw(prompt_tokens ids logprobs)}]),
       basename($name) . ': the prompt is that of jinja2') or diag($said, $out, $expected);
    unlink $model;
}

sub no_new_tokens {
    my ($requests) = @_;
    my $model = "$scratch/tiny.gguf";
    system("$tests/mkmodel", '--arch', 'llama', '--ctx', 256, $model) unless -e $model;
    my ($status, $out, $errors) = tool('zt-run', '-m', $model, '--jsonl', {in => slurp($requests)});
    my @asked = map { $json->decode($_) } grep { /\S/ } split /\n/, slurp($requests);
    my @answers = map { $json->decode($_) } split /\n/, $out;
    ok(!$status && @answers == @asked, basename($requests) . ' is answered') or diag($errors, $out);
    for my $i (0 .. $#answers) {
        next if $asked[$i]{n} // 1;
        ok($answers[$i]{generate_s} < .01 && $answers[$i]{prompt_s} > 0 && $answers[$i]{prompt_s} < 10,
           "generate_s $answers[$i]{generate_s}, prompt_s $answers[$i]{prompt_s}");
    }
}

# ---- the walk -----------------------------------------------------------------------------------

sub files {
    my ($dir, $like) = @_;
    my @found = sort grep { basename($_) =~ $like } glob "$dir/*";
    return @found;
}

sub walk {
    my ($dir) = @_;
    my $before = $count;
    my @parts = sort glob "$dir/*-*-of-*.gguf $dir/*/*-*-of-*.gguf";
    each_part(@parts) if @parts;
    torch_file($_) for files($dir, qr/\.pt$/);
    pointer($_) for grep { is_pointer($_) } files($dir, qr/\.gguf$/);
    importance($_) for files($dir, qr/\.dat$/);
    token_ids($_) for files($dir, qr/\.expected\.json$/);
    adapter($_) for files($dir, qr/\.expected\.safetensors$/);
    chat_template($_) for files($dir, qr/\.jinja$/);
    no_new_tokens($_) for files($dir, qr/\.jsonl$/);
    tied_and_untied($dir) if files($dir, qr/\.yaml$/);
    saved_modules($dir) if -e "$dir/adapter_config.json";
    if (-e "$dir/config.json") {
        bin_weights($dir) if -e "$dir/pytorch_model.bin";
        same_in_gguf($dir);
    }
    elsif (!-e "$dir/adapter_config.json") {
        safetensors_file($_) for grep { !/\.expected\./ } files($dir, qr/\.safetensors$/);
    }
    ok(0, basename($dir) . ': nothing here is of a known kind') if $count == $before;
}

if (!$cases || !-d $cases) {
    skip('no ZT_CASES');
}
else {
    $cases = abs_path($cases);
    for my $dir (sort grep { -d } glob "$cases/*") {
        diag(basename($dir));
        eval { walk($dir); 1 } or ok(0, basename($dir) . ": $@");
    }
    ok($count > 0, 'there are cases');
}
print "1..$count\n";
exit($failed > 0);
