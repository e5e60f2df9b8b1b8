#!/usr/bin/env perl
# prototypes.pl - public functions, read from `gcc -E` of lib/zt/all.h on stdin: one a line, tab-separated:
# name, header, return type, then "type name" of each parameter ("..." as it is). Pointers to structs that no public
# header defines begin with "opaque ".
use strict;
use warnings;

my ($file, $text, %struct, %forward, @found) = ('', '');
my @declaration_file;
while (<STDIN>) {
    if (/^# \d+ "([^"]*)"/) { $file = $1; next }
    next unless $file =~ m{^(?:\./)?lib/};
    chomp;
    $text .= "$_\x01$file\x02";
}
# Declarations at depth 0. Bodies of structs and enums go, but their names stay.
my ($depth, $now, $where) = (0, '', '');
while ($text =~ /\G(?:\x01([^\x02]*)\x02|(.))/gs) {
    if (defined $1) { $where = $1; $now .= ' '; next }
    my $c = $2;
    if ($c eq '{') { $now .= '{}' if !$depth++; $now = '' if $now =~ /extern "C" \{\}$/; next }
    if ($c eq '}') { $depth--; next }
    next if $depth;
    if ($c eq ';') { declaration($now, $where); $now = ''; next }
    $now .= $c;
}

sub trim { my ($s) = @_; $s =~ s/\s+/ /g; $s =~ s/^ | $//g; return $s }

sub declaration {
    my ($d, $header) = @_;
    $d =~ s/__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)//g;
    $d = trim($d);
    if ($d =~ /^typedef struct \w+ ?\{\} ?(\w+)$/) { $struct{$1} = 1; return }
    $struct{"$1"} = 1 if $d =~ /^struct (\w+) ?\{\}$/;
    $forward{$1} = 1 if $d =~ /^typedef struct \w+ (\w+)$/;
    return if $d =~ /^typedef|^static|^enum|^struct \w+ ?\{\}$/;
    return unless $d =~ /^(.*?[\s*])(zt_\w+) ?\((.*)\)$/;
    my ($type, $name, $args) = (trim($1), $2, $3);
    $type =~ s/^extern //;
    my ($level, $arg, @args) = (0, "");
    for my $c (split //, $args) {
        $level++ if $c eq '(';
        $level-- if $c eq ')';
        if ($c eq ',' && !$level) { push @args, trim($arg); $arg = ''; next }
        $arg .= $c;
    }
    push @args, trim($arg) if trim($arg) ne 'void' && trim($arg) ne '';
    push @found, [$name, $header, $type, @args];
}

for my $f (@found) {
    my ($name, $header, $type, @args) = @$f;
    for (@args) {
        my ($word) = /^(?:const )?(?:struct )?(zt_\w+) \*\w*$/;
        $_ = "opaque $_" if defined $word && $forward{$word} && !$struct{$word};
    }
    print join("\t", $name, $header, $type, @args), "\n";
}
