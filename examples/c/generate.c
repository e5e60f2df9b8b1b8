/* generate.c - text from a language model.
 *
 *     cc generate.c $(pkg-config --cflags --libs zt) -o generate
 *     ./generate model.gguf "The sky is" 40
 *
 * model.gguf may be any model that zt-run takes, a Hugging Face directory too. The most probable token is taken
 * each time; to sample, set the temperature below.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zt.h>

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: generate MODEL PROMPT TOKENS\n");
        return 64;
    }
    const char *prompt = argv[2];
    int wanted = atoi(argv[3]);

    /* After a failure every later call is given NULL, and does nothing: the error is looked at once, at the end. */
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engine = zt_engine_open(ctx, "cpu", NULL);
    zt_gguf *file = zt_model_open(ctx, argv[1]);
    zt_vocab *vocab = zt_vocab_open(file);
    zt_llm *llm = zt_llm_open(file, &(zt_llm_opts){.engine = engine});

    /* The prompt as token ids. The model's own rule says whether a beginning-of-sequence token comes first. */
    zt_ids history = {0};
    zt_vocab_encode(vocab, prompt, strlen(prompt), ZT_TOK_BOS_RULE, &history);

    int32_t vocabulary = zt_vocab_size(vocab);
    float *logits = zt_alloc_array(ctx, (size_t)vocabulary, sizeof *logits);
    float *scratch = zt_alloc_array(ctx, 2 * (size_t)vocabulary, sizeof *scratch);
    zt_sampler sampler = zt_sampler_defaults();
    sampler.temp = 0;

    zt_str text;
    zt_str_init(&text, ctx);
    size_t fed = 0;
    for (int i = 0; i < wanted && !zt_ctx_status(ctx); i++) {
        /* First the whole prompt, then one token at a time: what was fed before is in the KV cache. */
        if (zt_llm_feed(llm, history.id + fed, history.count - fed, false, logits)) break;
        fed = history.count;
        int32_t next = zt_sample(&sampler, logits, vocabulary, history.id, history.count, (int64_t)history.count, scratch);
        if (next < 0 || zt_vocab_is_eog(vocab, next)) break;
        zt_vocab_decode(vocab, next, false, false, &text);
        zt_ids_push(ctx, &history, next);
        fwrite(text.data, 1, text.len, stdout);
        fflush(stdout);
        zt_str_clear(&text);
    }
    putchar('\n');

    int status = zt_ctx_status(ctx) ? 1 : 0;
    if (status) fprintf(stderr, "generate: %s\n", zt_ctx_error(ctx));
    zt_str_fini(&text);
    zt_free(ctx, scratch);
    zt_free(ctx, logits);
    zt_ids_fini(ctx, &history);
    zt_llm_close(llm);
    zt_vocab_free(vocab);
    zt_gguf_close(file);
    zt_engine_close(engine);
    zt_ctx_free(ctx);
    return status;
}
