#!/usr/bin/env bats
# tokenizer.model through the tools: alone, in a directory, in the GGUF that zt-convert makes, and in
# the directory made of that again. golden_sentencepiece.c has the ids of all models and texts.

load ../common/helper

models=$tests/../sentencepiece

# directory MODEL: a Hugging Face directory DIR with that tokenizer, and an embedding that fits
directory() {
    mkdir -p "$BATS_TEST_TMPDIR/$1"
    cp "$models/$1.model" "$BATS_TEST_TMPDIR/$1/tokenizer.model"
    perl -e '
        my ($dir, $rows) = @ARGV;
        open my $c, ">", "$dir/config.json" or die;
        print $c qq({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":$rows,"hidden_size":4,
            "intermediate_size":4,"num_hidden_layers":1,"num_attention_heads":1,"rms_norm_eps":1e-5,
            "max_position_embeddings":64,"tie_word_embeddings":true});
        my %shape = ("model.embed_tokens.weight" => [$rows, 4], "model.norm.weight" => [4],
            map({("model.layers.0.$_.weight" => [4])} "input_layernorm", "post_attention_layernorm"),
            map({("model.layers.0.self_attn.${_}_proj.weight" => [4, 4])} qw(q k v o)),
            map({("model.layers.0.mlp.${_}_proj.weight" => [4, 4])} qw(gate up down)));
        my ($at, @h, $data) = 0;
        for my $name (sort keys %shape) {
            my $n = 4; $n *= $_ for @{$shape{$name}};
            push @h, sprintf q("%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}), $name,
                join(",", @{$shape{$name}}), $at, $at + $n;
            $data .= pack "f<*", map { ($_ * 7919 % 101) / 101 - 0.5 } $at / 4 .. ($at + $n) / 4 - 1;
            $at += $n;
        }
        my $head = "{" . join(",", @h) . "}";
        open my $w, ">:raw", "$dir/model.safetensors" or die;
        print $w pack("Q<", length $head), $head, $data;
    ' "$BATS_TEST_TMPDIR/$1" "$2"
    DIR=$BATS_TEST_TMPDIR/$1
}

setup() {
    cd "$BATS_TEST_TMPDIR"
}

tokens() {
    printf '%s' "$2" | zt-run -m "$1" --tokenize --no-bos
}

@test "alone, in a directory, in a GGUF and in a directory again: the same ids and text" {
    for name in unigram unigram_suffix bpe_gemma bpe_unused word; do
        directory "$name" 900
        zt-convert -q "$DIR" "$name.gguf"
        zt-convert -q --to hf "$name.gguf" "$name.back"
        cmp "$models/$name.model" "$name.back/tokenizer.model"
        want=$(tokens "$models/$name.model" '  Hello <|x|>  the ½ ｗ  ')
        [ -n "$want" ]
        for m in "$DIR" "$name.gguf" "$name.back"; do
            [ "$(tokens "$m" '  Hello <|x|>  the ½ ｗ  ')" = "$want" ]
            zt-run -m "$m" --detokenize -p "$want" >"text"
            zt-run -m "$models/$name.model" --detokenize -p "$want" | cmp - text
        done
        [ "$(zt-run -m "$DIR" --raw -p the -n 3 --ids)" = "$(zt-run -m "$name.gguf" --raw -p the -n 3 --ids)" ]
    done
}

@test "a tokenizer.model is no model, but on standard input too it counts" {
    want=$(tokens "$models/bpe.model" 'the end' | wc -w)
    [ "$(zt-run -m - --count -p 'the end' <"$models/bpe.model")" -eq "$want" ]
    run -65 --separate-stderr zt-run -m "$models/bpe.model" -p x -n 1
    one_message zt-run
}

@test "what GGUF's keys cannot express is named, and what they can is silent" {
    directory bpe_suffix 900
    run -0 --separate-stderr zt-convert "$DIR" a.gguf
    [[ $stderr == *treat_whitespace_as_suffix*zt.tokenizer.sentencepiece* ]]
    directory unigram 900
    run -0 --separate-stderr zt-convert "$DIR" b.gguf
    [ -z "$stderr" ]
    zt-convert --meta b.gguf >meta
    grep -q '^tokenizer.ggml.model.*t5' meta
    grep -q '^tokenizer.ggml.remove_extra_whitespaces.*true' meta
    grep -q '^tokenizer.ggml.precompiled_charsmap' meta
}

@test "control symbols: text only with --special, and found in text only with it" {
    m=$models/bpe_gemma.model
    ids=$(zt-run -m "$m" --tokenize --special -p '<ctl>the')
    [ "$(zt-run -m "$m" --detokenize -p "$ids")" = the ]
    [ "$(zt-run -m "$m" --detokenize --special -p "$ids")" = '<ctl>the' ]
    "$tests/mkmodel" tiny.gguf
    run -64 --separate-stderr zt-run -m tiny.gguf --detokenize --special -p 1
    one_message zt-run
    plain=$(zt-run -m "$m" --tokenize -p '<ctl>the')
    [ "$plain" != "$ids" ]
    [ "$(zt-run -m "$m" --detokenize -p "$plain")" = '<ctl>the' ]
}

@test "a bad tokenizer.model: 65, one line, whether it is run or converted" {
    directory bpe 900
    for bytes in 3 200 5000 100000; do
        head -c "$bytes" "$models/bpe.model" >"$DIR/tokenizer.model"
        run -65 --separate-stderr zt-run -m "$DIR" --tokenize -p x
        one_message zt-run
        run -65 --separate-stderr zt-convert "$DIR" c.gguf
        one_message zt-convert
        [ ! -e c.gguf ]
    done
}

@test "a class of transformers whose ids are not the file's is refused by name" {
    directory unigram 900
    echo '{"tokenizer_class": "XLMRobertaTokenizer"}' >"$DIR/tokenizer_config.json"
    for command in "zt-run -m $DIR --tokenize -p x" "zt-convert $DIR c.gguf"; do
        run -69 --separate-stderr $command
        one_message "${command%% *}"
        [[ $stderr == *XLMRobertaTokenizer* ]]
    done
    [ ! -e c.gguf ]
}

@test "under the names that T5's and others' have it: read as tokenizer.model, or refused by class" {
    directory unigram 900
    want=$(printf '%s' 'the end' | zt-run -m "$DIR" --tokenize)
    head=$(printf '%s' 'the end' | zt-run -m "$DIR" --tokenize --no-bos)
    [ "$want" != "$head" ]
    from=tokenizer.model
    for name in spiece.model sentencepiece.bpe.model spm.model; do
        mv "$DIR/$from" "$DIR/$name"
        from=$name
        zt-convert -q -f "$DIR" a.gguf
        for m in "$DIR" a.gguf; do
            [ "$(printf '%s' 'the end' | zt-run -m "$m" --tokenize)" = "$want" ]
        done
        head -c 700 "$DIR/$name" >short
        cp "$DIR/$name" whole
        cp short "$DIR/$name"
        run -65 --separate-stderr zt-run -m "$DIR" --count -p x
        [[ $stderr == *"$name"* ]]
        cp whole "$DIR/$name"
    done
    for type in xlm-roberta deberta-v2 albert big_bird m2m_100; do
        sed -i 's/"model_type":"[^"]*"/"model_type":"'$type'"/' "$DIR/config.json"
        run -69 --separate-stderr zt-run -m "$DIR" --count -p x
        one_message zt-run
        [[ $stderr == *Tokenizer*spm.model*tokenizer.json* ]]
    done
    sed -i 's/"model_type":"[^"]*"/"model_type":"t5"/' "$DIR/config.json"
    [ "$(printf '%s' 'the end' | zt-run -m "$DIR" --tokenize)" != "$want" ]
    [[ $(printf '%s' 'the end' | zt-run -m "$DIR" --tokenize) == "$head "* ]]
}

@test "a vocabulary where weights are wanted is named" {
    cp "$models/bpe.model" tokenizer.model
    for command in 'zt-convert tokenizer.model out.gguf' 'zt-convert --list tokenizer.model' 'zt-quant -T q8_0 tokenizer.model out.gguf' \
        'zt-dna extract tokenizer.model'; do
        run -65 --separate-stderr $command
        one_message "${command%% *}"
        [[ $stderr == *'tokenizer.model: a SentencePiece vocabulary'* ]]
        [ ! -e out.gguf ]
    done
}
