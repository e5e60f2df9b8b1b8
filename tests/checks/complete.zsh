# complete.zsh FOLDER LINE - prints what zsh offers for LINE with the functions in FOLDER, a word a line. zsh completes only in a
# terminal: a zsh in a pseudo terminal does it, and writes the words that it adds to a file.
zmodload zsh/zpty
words=$(mktemp)
cat >$words.rc <<RC
PS1= PS2= RPS1=
fpath=(${(q)1} \$fpath)
autoload -Uz compinit
compinit -u -D
zstyle ':completion:*' verbose no
zstyle ':completion:*' list-grouped no
setopt no_list_beep
# compadd -O: the words that match, which are then added as they would have been.
compadd() {
    local -a matching
    [[ \${@[1,(i)(-|--)]} == *-(O|A|D)* ]] && { builtin compadd "\$@"; return }
    builtin compadd -O matching "\$@"
    print -rl -- \$matching >>$words
    builtin compadd "\$@"
}
mark() { print -r -- done >$words.done }
zle -N mark
bindkey '^I' complete-word
bindkey '^X' mark
RC
zpty session "cd ${(q)PWD}; PATH=${(q)PATH} zsh -f -i"
zpty -w session "source $words.rc"
zpty -w -n session "$2"$'\t\x18'
for ((i = 0; i < 200; i++)); do
    [[ -e $words.done ]] && break
    zpty -r -t session ignored
    sleep 0.05
done
sort -u $words | grep .
zpty -d session
rm -f $words $words.rc $words.done
