/* request.c - a fuzz target for requests of zt-run: lines of --jsonl and bodies of --serve. The first byte chooses:
 *
 *     'j'   a line of --jsonl
 *     'c'   the body of /v1/chat/completions
 *     'p'   the body of /v1/completions
 *     'e'   the body of /v1/embeddings
 *
 * A request is answered by an error of one line of JSON, or its settings are in range and its prompt's tokens are in the vocabulary.
 * The made model, which has a chat template for tools, is opened once; it is not run.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tests/common/made_llm.h"
#include "tools/zt-run/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { CONTEXT = 512 };

static void must(bool good)
{
    if (!good) abort();
}

/* ---- opened once ------------------------------------------------------------------------------------ */

static model language;
static file language_file;
static zt_ctx *ctx;
static zt_cli cli;
static run_state base;

/* Beside the model's own template, which knows no tools. */
static void add_template(ggufw *writer)
{
    ggufw_str(
        writer, "tokenizer.chat_template.tool_use",
        "{%- if tools and not enable_thinking %}<tool_call>{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{%- endif %}"
        "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
        "{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{%- endfor %}<|im_end|>\n"
        "{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n<think>{%- endif %}");
}

static void close_all(void)
{
    zt_vocab_free(base.vocab);
    zt_ids_fini(ctx, &base.end_ids);
    model_close(&language);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    free(language_file.bytes);
}

static void open_all(void)
{
    ctx = zt_ctx_new();
    must(ctx != NULL);
    zt_log_set(ctx, ZT_LOG_WARN, NULL, NULL);
    language_file = make_file("llama", "f32", 1, add_template);
    must(model_open(&language, ctx, &language_file,
                    &(setup){.engine = "cpu", .threads = 1, .isa = ZT_ISA_SCALAR, .ctx_len = CONTEXT}) == ZT_OK);
    cli = (zt_cli){.ctx = ctx, .engine = "cpu", .seed = 1};
    run_options *options = run_options_init();
    options->model = "made";
    base = (run_state){.cli = &cli, .ctx = ctx, .options = options, .gguf = language.g, .llm = language.m};
    base.vocab = zt_vocab_open(language.g);
    must(base.vocab != NULL);
    base.vocab_rows = base.choices = zt_llm_get(language.m).vocab;
    atexit(close_all);
}

/* ---- one request ------------------------------------------------------------------------------------ */

static void check_request(const run_request *request)
{
    const run_state *run = &request->run;
    const run_options *options = &request->options;
    if (request->done) {
        must(request->failed && request->answer.len > 0);
        must(memchr(request->answer.data, '\n', request->answer.len) == request->answer.data + request->answer.len - 1);
        json_t *answer = json_loadb(request->answer.data, request->answer.len, 0, NULL);
        must(json_is_string(json_object_get(answer, "error")));
        json_decref(answer);
        return;
    }
    must(run->prompt_count == run->ids.count && run->ids.count <= CONTEXT);
    for (size_t i = 0; i < run->ids.count; i++) must(run->ids.id[i] >= 0 && run->ids.id[i] < zt_vocab_size(run->vocab));
    must(options->new_tokens >= -1 && options->logprobs >= -1 && options->logprobs <= MOST_LOGPROBS);
    for (int i = 0; i < options->stop_texts.n; i++) must(*options->stop_texts.item[i]);
}

static void read_line(const char *text, size_t size)
{
    run_request *request = request_new(&base, text, size, 1);
    must(request || request_is_theirs(zt_ctx_status(ctx)));
    if (!request) return;
    check_request(request);
    request_free(request);
}

static void begin_choices(serve_body *body, request_prompt *prompt)
{
    must(serve_body_forget(&base, body) == ZT_OK);
    for (size_t i = 0; i < body->choices && i < 2; i++) {
        run_request *request = serve_body_request(&base, body, prompt, i);
        must(request != NULL);
        check_request(request);
        request_free(request);
    }
}

static void read_body(serve_task task, const char *text, size_t size)
{
    serve_body body;
    zt_str copy;
    char member[64];
    zt_str_init(&copy, ctx);
    must(zt_str_put(&copy, text, size) == ZT_OK);
    zt_status status = serve_body_read(&base, task, &copy, &body);
    must(status == ZT_OK || status == ZT_EDATA);
    if (status != ZT_OK) must(body.status >= 400 && body.status < 500);
    serve_named_member(&body, zt_ctx_error(ctx), member);
    for (size_t i = 0; status == ZT_OK && task != SERVE_EMBEDDING && i < body.prompt_count && i < 3; i++) {
        request_prompt prompt = {0};
        zt_str_init(&prompt.end, ctx);
        status = serve_body_encode(&base, &body, i, &prompt);
        must(status == ZT_OK || request_is_theirs(status));
        if (status == ZT_OK && i == 0 && body.prompt_count == 1) begin_choices(&body, &prompt);
        zt_ids_fini(ctx, &prompt.ids);
        zt_str_fini(&prompt.end);
    }
    serve_body_free(&body);
    zt_str_fini(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0) return 0;
    if (!ctx) open_all();
    size_t blocks = zt_mem_get(ctx).blocks;
    const char *text = (const char *)bytes + 1;
    base.templates = run_templates_new(&base);
    base.grammars = run_grammars_new(&base);
    must(base.templates && base.grammars);
    switch (bytes[0]) {
    case 'c': read_body(SERVE_CHAT, text, count - 1); break;
    case 'p': read_body(SERVE_COMPLETION, text, count - 1); break;
    case 'e': read_body(SERVE_EMBEDDING, text, count - 1); break;
    default: read_line(text, count - 1);
    }
    must(!strchr(zt_ctx_error(ctx), '\n'));
    run_release(&base);
    run_templates_free(&base);
    run_grammars_free(&base);
    base.jinja = NULL;
    base.template = NULL;
    zt_ctx_clear(ctx);
    must(zt_mem_get(ctx).blocks == blocks);
    return 0;
}
