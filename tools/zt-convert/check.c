/* check.c - every fault of a file, a line each: what its reader refuses, then what is wrong with
 * the values: NaN, infinities, scales of blocks that are neither. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct file_checker {
    convert_job *job;
    zt_checkpoint *checkpoint;
    int64_t faults;
    char *raw;
    float *floats;
} file_checker;

enum { STEP = 1 << 15 }; /* elements at a time: a multiple of every block */

ZT_PRINTF(2, 3) static zt_status report_fault(file_checker *checker, const char *format, ...)
{
    char text[2048];
    zt_str line;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    zt_str_init(&line, checker->job->ctx);
    zt_str_put_escaped(&line, text, strlen(text));
    zt_status status = zt_str_putc(&line, '\n');
    if (status == ZT_OK) status = zt_cli_write(checker->job->cli, line.data, line.len);
    zt_str_fini(&line);
    checker->faults++;
    return status;
}

/* What the reader said is one; the context is as good as before. false: no fault of the file's. */
static bool report_refusal(file_checker *checker, zt_status *status)
{
    char text[2048];
    if (*status != ZT_EDATA) return false;
    snprintf(text, sizeof text, "%s", zt_ctx_error(checker->job->ctx));
    zt_ctx_clear(checker->job->ctx);
    *status = report_fault(checker, "%s", text);
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct value_counts {
    int64_t nan_count, infinite_count, first; /* first: element; -1: none */
} value_counts;

static void count_value(value_counts *counts, double value, int64_t element)
{
    if (isfinite(value)) return;
    counts->nan_count += isnan(value);
    counts->infinite_count += !isnan(value);
    if (counts->first < 0) counts->first = element;
}

/* f64 by itself: what is finite there may not be as f32. */
static void count_values(file_checker *checker, const zt_entry *entry, int64_t first, int64_t count, value_counts *found)
{
    if (entry->type.dtype == ZT_F64) {
        for (int64_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, checker->raw + 8 * i, 8);
            count_value(found, value, first + i);
        }
        return;
    }
    zt_dtype_convert(entry->type.dtype, checker->raw, ZT_F32, checker->floats, count);
    for (int64_t i = 0; i < count; i++) count_value(found, (double)checker->floats[i], first + i);
}

static zt_status report_counts(file_checker *checker, const zt_entry *entry, const value_counts *counts)
{
    const char *file = zt_checkpoint_name(checker->checkpoint);
    const zt_dtype_info *info = zt_dtype_get(entry->type.dtype);
    if (counts->first < 0) return ZT_OK;
    if (info->kind == 'Q')
        return report_fault(checker, "%s: tensor '%s': NaN or infinite scales, first in block %" PRId64 " (%" PRId64 " values)",
                            file, entry->name, counts->first / info->block, counts->nan_count + counts->infinite_count);
    return report_fault(checker, "%s: tensor '%s': %" PRId64 " NaN, %" PRId64 " infinite, first at element %" PRId64, file,
                        entry->name, counts->nan_count, counts->infinite_count, counts->first);
}

static zt_status check_values(file_checker *checker, int64_t i, const zt_entry *entry)
{
    const zt_dtype_info *info = entry->type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(entry->type.dtype) : NULL;
    value_counts counts = {.first = -1};
    bool has_values = info && entry->type.rank >= 0 && (info->kind == 'F' || info->kind == 'Q');
    int64_t remaining = has_values ? zt_type_count(&entry->type) : (int64_t)entry->bytes, element = 0;
    uint64_t byte = 0;
    zt_status status = ZT_OK;
    for (int64_t step; status == ZT_OK && remaining > 0; remaining -= step, element += step) {
        step = remaining < STEP ? remaining : STEP;
        size_t bytes = has_values ? (size_t)((step + info->block - 1) / info->block) * (size_t)info->block_bytes : (size_t)step;
        status = zt_checkpoint_read(checker->checkpoint, i, byte, checker->raw, bytes);
        byte += bytes;
        if (status == ZT_OK && has_values) count_values(checker, entry, element, step, &counts);
        if (status == ZT_OK) status = job_interrupted(checker->job);
    }
    return status == ZT_OK && has_values ? report_counts(checker, entry, &counts) : status;
}

/* Does it lie outside of the file? That has been told. */
static bool is_outside(const file_checker *checker, int64_t i, const zt_entry *entry)
{
    const zt_source *source;
    uint64_t offset;
    return !zt_checkpoint_streams(checker->checkpoint) && zt_checkpoint_place(checker->checkpoint, i, &source, &offset) &&
           (offset > zt_source_size(source) || entry->bytes > zt_source_size(source) - offset);
}

/* Of a stream nothing can be read behind a fault. */
static zt_status check_tensors(file_checker *checker)
{
    int64_t count = zt_checkpoint_count(checker->checkpoint);
    bool incomplete = checker->faults && zt_checkpoint_streams(checker->checkpoint); /* data may lie before what has been read */
    zt_status status = checker->raw && checker->floats ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count && !(incomplete && zt_checkpoint_streams(checker->checkpoint)); i++) {
        zt_entry entry;
        zt_checkpoint_get(checker->checkpoint, i, &entry);
        zt_progress(checker->job->cli, &(zt_work){"check", entry.name, "tensors", (double)i, (double)count});
        status = is_outside(checker, i, &entry) ? ZT_OK : check_values(checker, i, &entry);
        incomplete |= report_refusal(checker, &status);
    }
    if (status == ZT_OK && !incomplete) {
        status = zt_checkpoint_end(checker->checkpoint);
        report_refusal(checker, &status);
    }
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void on_fault(void *user, const char *text) { report_fault(user, "%s", text); }

zt_status job_check(convert_job *job)
{
    file_checker checker = {.job = job};
    const zt_faults faults = {.tell = on_fault, .user = &checker};
    zt_status status = zt_faults_listen(job->ctx, &faults);
    checker.checkpoint = status == ZT_OK ? job_open_one(job, job->paths[0], ZT_CHECKPOINT_STREAM) : NULL;
    zt_faults_listen(job->ctx, NULL);
    status = checker.checkpoint ? ZT_OK : zt_ctx_status(job->ctx);
    if (status == ZT_OK) {
        checker.raw = zt_alloc(job->ctx, STEP * 8);
        checker.floats = zt_alloc_array(job->ctx, STEP, sizeof *checker.floats);
        status = check_tensors(&checker);
    } else {
        report_refusal(&checker, &status);
    }
    zt_free(job->ctx, checker.raw);
    zt_free(job->ctx, checker.floats);
    zt_checkpoint_close(checker.checkpoint);
    if (status == ZT_OK && checker.faults)
        return zt_fail(job->ctx, ZT_EDATA, "%s: %" PRId64 " fault%s", job->paths[0], checker.faults,
                       checker.faults == 1 ? "" : "s");
    return status;
}
