/* lora.c - zt-dna lora: the difference of two models as an adapter. */
#include "tools/common/adapters.h"
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

static void on_progress(void *user, const char *matrix, double done, double all)
{
    zt_progress(user, &(zt_work){"lora", matrix, "matrices", done, all});
}

static zt_status write_extract(void *user, zt_writer *writer) { return zt_extract_write(user, writer); }

static zt_status extract_adapter(zt_cli *cli, const dna_options *options, zt_checkpoint *base, zt_checkpoint *tuned,
                                 const char *name)
{
    bool folder = zt_adapter_is_folder(cli->output);
    zt_extract_opts opts = {.rank = options->rank,
                            .peft = folder,
                            .place = zt_adapter_place,
                            .threads = (int)cli->threads,
                            .seed = cli->seed,
                            .stop = zt_cli_interrupted,
                            .progress = on_progress,
                            .user = cli};
    zt_extract *extract = zt_extract_new(cli->ctx, base, tuned, &opts);
    zt_status status = extract ? ZT_OK : zt_ctx_status(cli->ctx);
    const zt_adapter_content content = {.entries = zt_extract_entries(extract),
                                        .count = zt_extract_count(extract),
                                        .meta = zt_extract_meta(extract),
                                        .write = write_extract,
                                        .user = extract,
                                        .base = name,
                                        .rank = options->rank,
                                        .alpha = (double)options->rank};
    if (status == ZT_OK) status = zt_adapter_write(cli, &content);
    if (status == ZT_OK)
        zt_cli_note(cli, "%lld matrices; the adapter has %.2f %% of the squared differences",
                    (long long)zt_extract_count(extract) / 2, 100 * zt_extract_share(extract));
    if (status == ZT_OK && zt_extract_left(extract))
        zt_cli_note(cli, "warning: %lld tensors that differ are not matrices or embeddings and are not in the adapter",
                    (long long)zt_extract_left(extract));
    zt_extract_free(extract);
    return status;
}

zt_status dna_lora(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    if (!cli->output || !*cli->output)
        return zt_fail(cli->ctx, ZT_EUSAGE, "lora: no output: specify one with -o FILE.gguf or -o DIR/");
    zt_status status = strcmp(cli->output, "-") ? ZT_OK : zt_cli_refuse_terminal(cli, "an adapter");
    for (int i = 0; i < count && status == ZT_OK; i++) status = zt_cli_refuse_same(cli, operands[i], cli->output);
    zt_checkpoint *base = status == ZT_OK ? dna_open_checkpoint(cli, operands[0]) : NULL;
    zt_checkpoint *tuned = base ? dna_open_checkpoint(cli, operands[1]) : NULL;
    status = tuned ? extract_adapter(cli, options, base, tuned, operands[0]) : zt_ctx_status(cli->ctx);
    zt_checkpoint_close(base);
    zt_checkpoint_close(tuned);
    return status;
}
