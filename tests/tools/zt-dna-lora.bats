#!/usr/bin/env bats
# Adapters: what zt-dna merge makes of them is what PEFT does (tests/dna/lora), on every kind of base, and
# what cannot be right is refused by name.

load ../common/helper

setup_file() {
    set=$(cd "${ZT_TESTS:-build/tests}/.." && pwd)/lora
    export set
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit
    ln -s "$set"/* .
}

# near A B X: the same tensors, whose values differ by X of their size at most.
near() {
    diff <(zt-convert --list "$1" | cut -f1,3 | sort) <(zt-convert --list "$2" | cut -f1,3 | sort)
    zt-dna compare "$1" "$2" --threshold -1 --format tsv >table
    awk -F'\t' -v most="$3" 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "rel_l2") c = i; next}
        $c > most {print; bad = 1} END {exit bad || !c || NR < 2}' table
}

# adapter NAME PERL: a copy of patterns/a whose adapter_config.json the expression has changed.
adapter() {
    rm -rf "$1"
    cp -rL "${3:-patterns/a}" "$1"
    chmod -R u+w "$1"
    perl -MJSON::PP -e 'local $/; open my $f, "<", $ARGV[0]; my $j = JSON::PP->new->decode(<$f>); eval $ARGV[1];
        die $@ if $@; open $f, ">", $ARGV[0]; print $f JSON::PP->new->canonical->encode($j)' \
        "$1/adapter_config.json" "$2"
}

# refused CODE WORD SPEC: that code, one line with the word, nothing written.
refused() {
    run --separate-stderr zt-dna merge "$3" -o new.gguf
    echo "zt-dna merge $3: $status $stderr"
    [ "$status" -eq "$1" ] && one_message zt-dna && [[ $stderr == *"$2"* ]] && [ ! -e new.gguf ]
}

@test "every made adapter gives PEFT's tensors, in a directory" {
    n=0
    for spec in */spec; do
        name=${spec%/spec}
        zt-dna merge -q -f "$(cat "$spec")" --type f32 -o "out-$name/"
        near "out-$name/model.safetensors" "$name/expected.safetensors" 1e-6 || { echo "$name"; false; }
        n=$((n + 1))
    done
    [ "$n" -ge 20 ]
}

@test "every made adapter: a GGUF as the base gives the bits that the directory does" {
    for base in bases/*; do zt-convert -q "$base" "${base#bases/}.gguf"; done
    for spec in */spec; do
        name=${spec%/spec}
        to=$(sed -E 's|^bases/([a-z0-9]+)|\1.gguf|' "$spec")
        zt-dna merge -q -f "$(cat "$spec")" -o a.gguf
        zt-dna merge -q -f "$to" -o b.gguf
        diff <(zt-convert --hash a.gguf) <(zt-convert --hash b.gguf) || { echo "$name"; false; }
    done
}

@test "adapters: weights without GGUF's metadata have PEFT's names" {
    for name in patterns dora ends conv1d conv1d_dora conv1d_saved tied_head weighted; do
        to=$(sed -E 's|^(bases/[a-z0-9]+)|\1/model.safetensors|' $name/spec)
        zt-dna merge -q -f "$to" -o out.safetensors
        near out.safetensors $name/expected.safetensors 1e-6 || { echo "$name"; false; }
    done
}

# changed_experts PERL: a copy of experts/a, x, in which the expression has renamed tensors to names of the same length.
changed_experts() {
    rm -rf x
    cp -rL experts/a x
    chmod -R u+w x
    perl -0777 -pi -e "$1" x/adapter_model.safetensors
}

@test "experts: stacked as llama.cpp has them, or each by itself; what does not fit is refused" {
    zt-convert -q bases/qwen3moe moe.gguf
    zt-dna merge moe.gguf+experts/stacked.gguf -o stacked.gguf
    zt-dna merge moe.gguf+experts/a -o each.gguf
    cmp_experts() { diff <(zt-convert --hash "$1" | grep _exps) <(zt-convert --hash "$2" | grep _exps); }
    cmp_experts stacked.gguf each.gguf
    run -1 cmp_experts stacked.gguf moe.gguf
    [ "$(zt-convert --hash stacked.gguf | grep -c _exps)" = 3 ]
    # both at half strength, in either order and for any threads
    zt-dna merge moe.gguf+experts/stacked.gguf=0.5+experts/a=0.5 -t 1 -o one.gguf
    zt-dna merge moe.gguf+experts/a=0.5+experts/stacked.gguf=0.5 -t 3 -o two.gguf
    near one.gguf two.gguf 1e-6
    near one.gguf each.gguf 0.2
    # an expert that the model does not have, the same one twice, a layer without experts, an unknown matrix
    changed_experts 's/experts\.2\.up_proj\.lora/experts.3.up_proj.lora/g'
    refused 65 "experts.3.up_proj" moe.gguf+x
    changed_experts 's/experts\.2\.up_proj\.lora/experts.1.up_proj.lora/g'
    refused 65 "experts.1.up_proj" moe.gguf+x
    changed_experts 's/layers\.1\.mlp\.experts\.0\.up_proj/layers.0.mlp.experts.0.up_proj/g'
    refused 65 "layers.0.mlp.experts.0.up_proj" moe.gguf+x
    changed_experts 's/experts\.0\.up_proj\.lora/experts.0.wp_proj.lora/g'
    refused 65 "wp_proj" moe.gguf+x
}

@test "adapters: the order and the threads say nothing; the scale multiplies the difference" {
    zt-dna merge bases/llama+weighted/a=0.5+weighted/b=-1.25 -t 1 -o one.gguf
    zt-dna merge bases/llama+weighted/b=-1.25+weighted/a=0.5 -t 3 -o two.gguf
    near one.gguf two.gguf 1e-6
    zt-dna merge bases/llama+dora/a=0 -o nothing.gguf
    zt-convert -q bases/llama base.gguf
    diff <(zt-convert --hash base.gguf) <(zt-convert --hash nothing.gguf)
    # of whole tensors too: the mean of the base and the adapter
    zt-dna merge bases/llama+saved/a -o all.gguf
    zt-dna merge bases/llama+saved/a=0.5 -o half.gguf
    zt-dna merge --method linear base.gguf all.gguf -o mean.gguf
    near half.gguf mean.gguf 1e-6
    # in a recipe, and with another method
    zt-dna merge --method linear --weight 1,1 bases/llama+saved/a bases/llama -f -o mean.gguf
    near half.gguf mean.gguf 1e-6
}

@test "adapters: a name with + or = in it is the file of that name" {
    cp -rL patterns/a 'p+q=2'
    zt-dna merge 'bases/llama+p+q=2' -o one.gguf
    zt-dna merge 'bases/llama+p+q=2=1' -o two.gguf
    zt-dna merge bases/llama+patterns/a -o three.gguf
    diff <(zt-convert --hash one.gguf) <(zt-convert --hash three.gguf)
    diff <(zt-convert --hash two.gguf) <(zt-convert --hash three.gguf)
}

@test "patterns: the first key that fits, in the file's order; Python's own words are refused" {
    near_patterns() { # ALPHA_PATTERN SCALE: the patterns give alpha SCALE to every matrix
        adapter x '$j->{rank_pattern} = {}; $j->{use_rslora} = JSON::PP::false' weighted/a
        adapter y "\$j->{lora_alpha} = $2" weighted/a
        perl -pi -e 's/"alpha_pattern":\{\}/"alpha_pattern":'"$1"'/' x/adapter_config.json
        zt-dna merge -f bases/llama+x -o x.gguf && zt-dna merge -f bases/llama+y -o y.gguf
        diff <(zt-convert --hash x.gguf) <(zt-convert --hash y.gguf)
    }
    near_patterns '{"q_proj|up_proj": 5, "q_proj": 9}' 5
    near_patterns '{"_proj": 9, "k_proj": 9, ".*_proj": 3}' 3
    near_patterns '{"model": 9, "(?i:SELF_ATTN|mlp)[.](q|up)_[a-z]+": 2.5}' 2.5
    near_patterns '{"layers.\\\\d+.\\\\w+.(?P<x>q|up)_proj": 7}' 7
    for p in '\\\\h' '\\\\Q.\\\\E' '(?i)q_proj' '[[:alpha:]]_proj' '\\\\p{L}' '(*ACCEPT)' 'q{,3}' '(?|a|b)' '(?R)' 'q('; do
        adapter x '1' weighted/a
        perl -pi -e 's/"alpha_pattern":\{\}/"alpha_pattern":{"'"$p"'": 2}/' x/adapter_config.json
        refused 65 alpha_pattern bases/llama+x
    done
    adapter x '$j->{alpha_pattern} = {"(a+)+b|q_proj" => 2, "q_proj" => "x"}' weighted/a
    refused 65 'not a number' bases/llama+x
}

@test "target_parameters: what is not a parameter of experts, or does not fit, is refused" {
    zt-convert -q bases/qwen3moe moe.gguf
    for base in bases/qwen3moe moe.gguf; do
        adapter x '$j->{target_parameters} = "down_proj"' parameters/a
        refused 65 "'target_parameters' is not a list" $base+x
        adapter x '$j->{target_parameters} = [1]' parameters/a
        refused 65 "'target_parameters': a name is not a string" $base+x
        adapter x '$j->{target_parameters} = ["mlp.experts.w1"]' parameters/a
        refused 69 "'mlp.experts.w1' is not supported" $base+x
        adapter x '$j->{r} = 5' parameters/a
        refused 65 'rank 5' $base+x
        adapter x '$j->{rank_pattern}{down_proj} = 6' parameters/a # of one expert
        refused 65 'down_proj' $base+x
        adapter x '$j->{rank_pattern} = {"gate_up_proj" => 2.5}' parameters/a
        refused 65 'rank 2.5' $base+x
        adapter x '$j->{target_parameters} = ["experts.down_proj"]' parameters/a # the inner one has no place
        refused 65 'base_layer' $base+x
        adapter x '$j->{target_parameters} = ["experts.gate_up_proj", "experts.up_proj", "experts.down_proj"]' parameters/a
        refused 65 'up_proj' $base+x
    done
    refused 65 "parameter 'model.layers.1.mlp.experts.down_proj'" bases/llama+parameter/a
}

@test "adapters: what would be another model's numbers is refused by name" {
    for init in pissa pissa_niter_4 olora corda loftq lora_ga; do
        adapter x "\$j->{init_lora_weights} = '$init'"
        refused 69 "'$init'" bases/llama+x
    done
    for key in layer_replication alora_invocation_tokens; do
        adapter x "\$j->{$key} = [1]"
        refused 69 "'$key'" bases/llama+x
    done
    for key in use_qalora use_bdlora arrow_config kasa_config monteclora_config; do
        adapter x "\$j->{$key} = {a => 1}"
        refused 69 "'$key'" bases/llama+x
    done
    adapter x '$j->{peft_type} = "LOHA"'
    refused 69 LOHA bases/llama+x
    adapter x '$j->{r} = 5'
    refused 65 'rank 5' bases/llama+x
    adapter x '$j->{use_dora} = JSON::PP::true'
    refused 65 lora_magnitude_vector bases/llama+x
    adapter x '$j->{use_dora} = JSON::PP::false' dora/a
    refused 65 lora_magnitude_vector bases/llama+x
    adapter x '$j->{trainable_token_indices}{embed_tokens} = [1, 2]' tokens/a
    refused 65 trainable_token_indices bases/llama+x
    adapter x '$j->{trainable_token_indices}{embed_tokens} = [1, 2, 40]' tokens/a
    refused 65 'row 40' bases/llama+x
    adapter x 'push @{$j->{modules_to_save}}, "embed_tokens"' saved/a
    refused 65 "'embed_tokens'" bases/llama+x
    adapter x '$j->{lora_alpha} = "8"'
    refused 65 lora_alpha bases/llama+x
    refused 65 'transformer.h.0' bases/llama+conv1d/a
    refused 65 'mlp.down_proj' bases/gpt2+patterns/a
    refused 65 'k_proj.bias' bases/llama+bias/a
    refused 69 'adding 4 rows' bases/llama+grown_ends/a+ends/a
    refused 69 DoRA bases/llama+dora/a+patterns/a
    refused 69 'adding 4 rows' bases/llama+grown/a=0.5
    refused 66 none bases/llama+none
    refused 64 "'+'" bases/llama+
    refused 64 "'half'" bases/llama+patterns/a=half
    # a tower beside the language model, whose modules have the same last names
    retensor() { # DIR FROM TO: another name in adapter_model.safetensors, of the same length
        adapter x 1 "$1"
        perl -pi -e "s/\Q$2\E/$3/g" x/adapter_model.safetensors
    }
    retensor bf16/a base_model.model.model.layers.0 base_model.model.vision_tow.l.0
    refused 65 'vision_tow' bases/llama+x
    retensor bf16/a base_model.model.model.layers.1 base_model.model.other.layers.0
    refused 65 'change the same tensor' bases/llama+x
    # a member that nobody knows is told
    adapter x '$j->{brand_new} = 3; $j->{not_set} = undef'
    run --separate-stderr zt-dna merge bases/llama+x -o new.gguf
    [ "$status" -eq 0 ] && [[ $stderr == *"'brand_new'"* && $stderr != *not_set* ]]
}

@test "zt-dna lora: PEFT's names where they are known, else a GGUF alone; both come back" {
    for base in llama qwen2 gemma3 gpt2; do
        zt-convert -q -f bases/$base base.gguf
        case $base in
        llama) a=patterns ;; qwen2) a=bias_all ;; gemma3) a=norms ;; gpt2) a=conv1d ;;
        esac
        zt-dna merge -q -f base.gguf+$a/a -o tuned.gguf
        zt-dna lora -q -f --rank 16 base.gguf tuned.gguf -o l.gguf
        zt-dna merge -q -f base.gguf+l.gguf -o back.gguf
        rm -rf peft
        if [ $base = gpt2 ]; then
            run --separate-stderr zt-dna lora -q --rank 8 base.gguf tuned.gguf -o peft/
            [ "$status" -eq 69 ] && one_message zt-dna && [[ $stderr == *"'gpt2'"* ]] && [ ! -e peft ]
        else
            zt-dna lora -q --rank 16 base.gguf tuned.gguf -o peft/
            zt-dna merge -q -f bases/$base+peft -o other.gguf
            near back.gguf other.gguf 2e-5
        fi
    done
}

@test "a model of an architecture that zt does not know has its own names" {
    cp -rL bases/llama m
    chmod -R u+w m
    sed -i 's/"model_type": "llama"/"model_type": "mystery"/; s/LlamaForCausalLM/MysteryForCausalLM/' m/config.json
    zt-dna merge -q m+patterns/a -o out.safetensors
    zt-convert -q --select 'model*' --select lm_head.weight out.safetensors some.safetensors
    near some.safetensors patterns/expected.safetensors 1e-6
    # a GGUF that says so without the names is refused
    zt-convert -q --set general.architecture=mystery bases/llama m.gguf
    refused 69 "'mystery'" m.gguf+patterns/a
}

@test "an adapter that torch.save wrote is read" {
    cp -rL patterns/a x
    zt-convert -q x/adapter_model.safetensors x/adapter_model.bin --to pt
    rm -f x/adapter_model.safetensors
    zt-dna merge -q bases/llama+x -o one.gguf
    zt-dna merge -q bases/llama+patterns/a -o two.gguf
    diff <(zt-convert --hash one.gguf) <(zt-convert --hash two.gguf)
}
