#!/usr/bin/env perl
# walk.pl TABLE - walks every option of a tool's --help=all through every mode of the tool: it takes effect, or is
# refused with 64 as not applying to the mode. TABLE (tests/tools/options/TOOL.pl) is a Perl hash:
#
#   tool   the tool's name
#   make   shell commands that make the files the runs read, in the folder they run in
#   modes  name => {run => [arguments], stdin => FILE, same => sub}: a run that ends well. `same` takes what
#          differs from run to run (times) out of a text before texts are compared. With typed => TEXT it is
#          on a terminal, where that is typed.
#          copy => {NAME => FILE}: a file of its own for each run.
#          slow => WHY, wrong => OPERAND: no more is tried than whether an option is refused, or that
#          operand, which ends the run before its work. It may be the value of the option that chooses the mode.
#   flags  options that choose a mode: given in another one, they must be refused
#   all    what is said of an option, by its name (or by its letter where it has no name)
#   in     the same for one mode: {MODE}{OPTION}
#
# What is said of an option:
#   value  to give it. One that is in `run` already is given this value instead; a flag there is left out.
#   run    arguments instead of those of the mode
#   with   arguments that both runs have besides
#   terminal  true: on a terminal
#   there  a file that is there before both runs
#   then the evidence that it takes effect. Without any, something must differ: exit status, stdout, stderr,
#   or a file that is written.
#   code   the run with it ends with this exit status, the one without does not
#   fails  the run with it fails, the one without does not
#   says   this regular expression matches what it prints or writes, and nothing without it
#   tasks  it starts another number of threads, as strace counts them
#   reason why there is nothing to be seen; the run must end as the one without it
use strict;
use warnings;
use Cwd;
use File::Temp qw(tempdir);
use POSIX ();

my $table = do "./" . $ARGV[0] or die "$ARGV[0]: ", $@ || $!;
my $tool = $table->{tool};
my $shared = do "./shared.pl" or die "shared.pl: ", $@ || $!;
my $strace = !system "command -v strace >/dev/null";
my $top = getcwd;

# ---- options, as --help=all has them ---------------------------------------------------------------------

my @options;    # {name, letter, arg}
for (split /\n/, `$tool --help=all`) {
    my ($letter, $name, $arg) = /^ +(?:(-[A-Za-z]))?(?:, )?(--[a-z0-9-]+)?(?: ([^ ]+))?(?:  |$)/ or next;
    next unless $letter || $name;
    push @options, {key => $name || $letter, letter => $letter, name => $name, arg => $arg};
}
die "$tool --help=all has few options\n" if @options < 15;

# ---- runs --------------------------------------------------------------------------------------------

sub slurp { local $/; open my $f, "<:raw", $_[0] or return ""; my $x = <$f>; $x // "" }

# Runs the command on a terminal of its own, on which each line is typed after a "> "; what it shows goes to ../out.
# On Linux: these are the numbers of TIOCSPTLCK, TIOCGPTN and TIOCSCTTY.
sub run_on_terminal {
    my ($typed, @command) = @_;
    my ($no, $n, $shown, $since) = (pack("i", 0), pack("i", 0), "", 0);
    open my $terminal, "+<:raw", "/dev/ptmx" or die "/dev/ptmx: $!";
    ioctl $terminal, 0x40045431, $no or die "a terminal: $!";
    ioctl $terminal, 0x80045430, $n or die "a terminal: $!";
    my $name = "/dev/pts/" . unpack "i", $n;
    open my $other, "+<", $name or die "$name: $!";
    my $pid = fork // die;
    if (!$pid) {
        POSIX::setsid();
        open STDIN, "+<", $name or die;
        ioctl STDIN, 0x540e, 0;
        open STDOUT, ">&STDIN";
        open STDERR, ">&STDIN";
        exec @command;
    }
    close $other;
    my @lines = split /^/m, $typed;
    while (sysread $terminal, $shown, 65536, length $shown) {
        next unless @lines && substr($shown, $since) =~ /> /;
        $since = length $shown;
        select undef, undef, undef, .01;    # the line editor takes the terminal after its prompt
        syswrite $terminal, shift @lines;
    }
    waitpid $pid, 0;
    my $status = $?;
    open my $f, ">:raw", "../out" or die;
    print $f $shown;
    $? = $status;
}

# Runs the tool in the current folder, where links are what was made before; what it writes is taken away.
sub run_tool {
    my ($mode, $there, @args) = @_;
    $mode = {%$mode, terminal => 1} if exists $mode->{typed};
    my $dir = getcwd;
    for (keys %{$mode->{copy} || {}}) { unlink; system "cp", "-L", $mode->{copy}{$_}, $_ }
    for (ref $there ? @$there : $there // ()) { open my $f, ">", $_ or die; print $f "there\n" }
    my @command = ($tool, @args);
    my $pid = $mode->{terminal} ? 0 : fork // die;
    if ($mode->{terminal}) {
        unlink "../err";
        run_on_terminal($mode->{typed} // "", @command);
    } elsif (!$pid) {
        open STDIN, "<", $mode->{stdin} || "/dev/null" or die;
        open STDOUT, ">", "../out" or die;
        open STDERR, ">", "../err" or die;
        exec @command;
        die "$tool: $!";
    }
    waitpid $pid, 0 if $pid;
    my %r = (status => $? & 127 ? 128 + ($? & 127) : $? >> 8, out => slurp("../out"), err => slurp("../err"));
    for (sort glob "*") {
        next if -l;
        $r{file}{$_} = -d $_ ? join "|", map {"$_=" . slurp($_)} sort glob "$_/*" : slurp($_);
        system "rm", "-rf", $_;
    }
    my $same = $mode->{same} || sub { $_[0] };
    $r{all} = join "\n", map { $same->($_) }
        "status $r{status}", $r{out}, $r{err}, map {"$_ $r{file}{$_}"} sort keys %{$r{file}};
    return \%r;
}

sub tasks {
    my ($mode, @args) = @_;
    system "bash", "-c", 'ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o ../trace -e trace=clone,clone3 "$@" ' .
        '<"${0:-/dev/null}" >/dev/null 2>&1', $mode->{stdin} || "", $tool, @args;
    my $n = () = slurp("../trace") =~ /clone3?\(/g;
    system "find . -type f -delete";
    return $n;
}

# ---- arguments ---------------------------------------------------------------------------------------

# The arguments with the option's value: in place of the one there, or behind.
sub with_option {
    my ($o, $value, @args) = @_;
    for my $i (0 .. $#args) {
        last if $args[$i] eq "--";
        next unless ($o->{name} && $args[$i] eq $o->{name}) || ($o->{letter} && $args[$i] eq $o->{letter});
        splice @args, $i, defined $o->{arg} ? 2 : 1, defined $o->{arg} ? ($args[$i], $value) : ();
        return @args;
    }
    my @option = ($o->{name} || $o->{letter}, defined $o->{arg} ? $value : ());
    my ($end) = grep {$args[$_] eq "--"} 0 .. $#args;
    return defined $end ? (@args[0 .. $end - 1], @option, @args[$end .. $#args]) : (@args, @option);
}

# Is it refused because the option does not apply to the mode?
sub refused { $_[0]{status} == 64 && "$_[0]{err}$_[0]{out}" =~ /option '\Q$_[1]\E' does not apply to/ }

# ---- one option in one mode --------------------------------------------------------------------------

my %base;    # results of runs without the option, by their arguments

# What is wrong; undef: nothing.
sub walk_one {
    my ($name, $mode, $o) = @_;
    my $key = $o->{key};
    my $about = $table->{in}{$name}{$key} || $table->{all}{$key} || $shared->{$key} || {};
    my ($word) = ($o->{arg} // "") =~ /\|([a-z0-9]+)/;
    my $value = $about->{value} // $word // 1;
    my @args = @{$about->{run} || $mode->{run}};
    my ($end) = grep {$args[$_] eq "--"} 0 .. $#args;
    splice @args, $end // @args, 0, @{$about->{with} || []};
    my $there = grep {$_ eq $key || $_ eq ($o->{letter} // "")} @args;
    $mode = {%$mode, terminal => 1} if $about->{terminal};
    # Alone first: what it would need besides may not apply either.
    $mode = {%$mode, same => $about->{same}} if $about->{same};
    my %plain = (same => $mode->{same}, stdin => $mode->{stdin}, copy => $mode->{copy});
    my $r = run_tool(\%plain, $about->{there}, with_option($o, $value, $mode->{slow} ? (@{$mode->{run}}, $mode->{wrong}) : @{$about->{run} || $mode->{run}}));
    $r = run_tool($mode, $about->{there}, with_option($o, $value, @args))
        if !$mode->{slow} && ($about->{with} || $about->{terminal} || exists $mode->{typed}) && !refused($r, $key);
    $r = run_tool($mode, $about->{there}, with_option($o, $value, @{$mode->{run}}, @{$about->{with}}, $mode->{wrong}))
        if $mode->{slow} && $about->{with} && $r->{err} =~ /^[^:]*: option '\Q$key\E' needs /;
    my $said = "$r->{err}$r->{out}";
    if (refused($r, $key)) {
        return "is refused in more than a line: $said" if $said !~ /^[^\n]*\n$/;
        return "is refused, which tests/tools/options says it is not" if $about->{applies};
        return undef;
    }
    if ($mode->{slow}) {
        return undef if $r->{status} == 64 && $said =~ /exclude each other/ && grep {$_ eq $key} @{$table->{flags}};
        return $r->{status} == 64 && $said =~ /'\Q$mode->{wrong}\E'/ || $key =~ /^--(help|version|list-devices|completion|force)$/
            ? undef : "is neither refused nor accepted: $said";
    }
    if (!$there && !$table->{in}{$name}{$key} && grep {$_ eq $key} @{$table->{flags}}) {
        return $r->{status} == 64 && $said =~ /exclude each other|does not apply to \Q$key\E/ ? undef : "is not refused: $said";
    }
    return "has no value in $ARGV[0]" if defined $o->{arg} && !defined $about->{value} && !$word;
    my $without = $base{join "\0", $name, $mode->{terminal} // 0, @{ref $about->{there} ? $about->{there} : [$about->{there} // ""]}, @args} //=
        run_tool($mode, $about->{there}, @args);
    return "needs something besides: $said" if $r->{status} == 64 && !$about->{code} && !$about->{fails} && (!$there || defined $o->{arg});
    if (exists $about->{reason}) {
        return length $about->{reason} > 10 && $r->{status} == $without->{status} ? undef : "ends with $r->{status}: $said";
    }
    if ($about->{fails}) {
        return $r->{status} && !$without->{status} ? undef : "ends with $r->{status}: $said";
    }
    if ($about->{code}) {
        return undef if $r->{status} == $about->{code} && $without->{status} != $about->{code};
        return "ends with $r->{status}, not $about->{code} (without it: $without->{status}): $said";
    }
    if ($about->{says}) {
        my $re = $about->{says};
        my $file = join "\n", map {"$_ $r->{file}{$_}"} keys %{$r->{file}};
        return undef if "$said$file" =~ /$re/ && $without->{all} !~ /$re/;
        return "does not make it say $re ($r->{status}): $said";
    }
    if ($about->{tasks}) {
        return undef unless $strace;
        my ($a, $b) = (tasks($mode, @args), tasks($mode, with_option($o, $value, @args)));
        return $a == $b ? "starts $a threads, as without it" : undef;
    }
    return $r->{all} eq $without->{all} ? "changes nothing (status $r->{status}; $said)" : undef;
}

# ---- all ---------------------------------------------------------------------------------------------

my $made = tempdir(CLEANUP => 1);
chdir $made or die;
mkdir "made" or die;
chdir "made" or die;
system("bash", "-c", "set -e; " . ($table->{make} || ":")) == 0 or chdir("/"), die "$tool: files were not made\n";
for my $name (grep {!$table->{modes}{$_}} keys %{$table->{in}}) { die "$name is not a mode\n" }
for my $key (keys %{$table->{all}}, map {keys %$_} values %{$table->{in}}) {
    die "$ARGV[0]: $tool has no option $key\n" unless grep {$_->{key} eq $key} @options;
}

my @modes = grep {!$ENV{WALK_MODE} || $_ eq $ENV{WALK_MODE}} sort keys %{$table->{modes}};
my $failed = 0;
my @jobs = ([], []);
push @{$jobs[$_ % 2]}, $modes[$_] for 0 .. $#modes;
my @pids;
for my $half (0, 1) {
    my $pid = fork // die;
    if ($pid) { push @pids, $pid; next }
    mkdir "$made/$half";
    mkdir "$made/$half/w";
    chdir "$made/$half/w" or die;
    my ($bad, $n) = (0, 0);
    for my $name (@{$jobs[$half]}) {
        my $mode = $table->{modes}{$name};
        symlink "$made/made/" . (s{.*/}{}r), s{.*/}{}r for glob "$made/made/*";
        my $r = run_tool($mode, undef, @{$mode->{run}}) if !$mode->{slow};
        print("$tool, $name: the run without options fails: $r->{status} $r->{err}$r->{out}\n"), $bad++
            if $r && $r->{status};
        for my $o (@options) {
            next if $ENV{WALK_OPTION} && $o->{key} ne $ENV{WALK_OPTION};
            my $why = walk_one($name, $mode, $o);
            $n++;
            next unless defined $why;
            $bad++;
            print "$tool, $name: $o->{key} ", substr($why, 0, 400), "\n";
        }
    }
    print "$n runs\n";
    close STDOUT;
    chdir "/";
    POSIX::_exit($bad ? 1 : 0);
}
for (@pids) { waitpid $_, 0; $failed |= $? }
chdir $top;
exit($failed ? 1 : 0);
