#!/usr/bin/env perl
# contracts.pl HEADER... - prototypes of public headers without a contract, one a line, and at last the share of lines
# that are comments, in per cent.
#
# A prototype has a contract where a comment stands on its lines, or on those right before it; or where it goes on,
# without a blank line between, in a list of prototypes whose comment names it, whole or without zt_ and its object (state_get).
use strict;
use warnings;

my ($lines, $comments) = (0, 0);
for my $file (@ARGV) {
    open my $in, '<', $file or die "$file: $!\n";
    my @line = <$in>;
    my ($inside, $block, $fresh, $list, $depth) = (0, '', 0, '', 0);
    my ($declaration, $own, $continued) = ('', 0, 0);
    for my $l (@line) {
        chomp $l;
        my ($code, $comment) = ($l, '');
        if ($inside) { if ($code =~ s/^(.*?)\*\///) { $comment = $1; $inside = 0 } else { $comment = $code; $code = '' } $comment = $l if $code eq '' }
        while ($code =~ s{/\*(.*?)\*/}{ }) { $comment .= " $1" }
        if ($code =~ s{/\*(.*)$}{}) { $comment .= " $1"; $inside = 1 }
        my $text = $code;
        $text =~ s/^\s+|\s+$//g;
        if ($l =~ /\S/ && $l !~ /^#(?:ifn?def|endif|include|define ZT_\w+_H$)|^extern "C"|^}$/) { $lines++; $comments++ if $comment ne '' || $inside }
        if ($text eq '') {
            if ($comment ne '' || $inside) { if (!$declaration) { $block = '' if $fresh == 2; $block .= " $comment"; $fresh = 1; $list = $block } }
            else { ($block, $fresh, $list) = ('', 0, '') }
            next;
        }
        $fresh = 2 if $fresh == 1;
        my $directive = $text =~ /^#/ || $continued;
        $continued = $directive && $text =~ /\\$/;
        next if $directive || $text =~ /^extern "C" \{$/ || $text eq "}" && $depth == 0;
        $declaration .= " $text";
        $own = 1 if $comment ne '';
        $depth += () = $text =~ /\{/g;
        $depth -= () = $text =~ /\}/g;
        next if $depth > 0 || $text !~ /;$/;
        if ($declaration !~ /typedef|\{|^\s*extern|^\s*(?:struct|enum|union) \w+;/ && $declaration =~ /\b(zt_\w+)\s*\(/) {
            my $name = $1;
            (my $word = $name) =~ s/^zt_[a-z0-9]+_//;
            my $has = $own || ($block ne '' && $fresh == 2) || $list =~ /\b$name\b|\b_?\Q$word\E\b/;
            print "$file: $name\n" if !$has;
        } else { $list = '' }
        $block = '', $fresh = 0;
        ($declaration, $own) = ('', 0);
    }
}
printf "%.1f\n", 100 * $comments / $lines;
