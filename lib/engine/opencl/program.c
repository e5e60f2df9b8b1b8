/* program.c - kernels out of their sources, by the driver's own compiler.
 *
 * A source is a file of this folder with what it includes. It is built for a device when the first of its kernels is
 * launched. Drivers keep what they built (PoCL in ~/.cache/pocl), so nothing is kept here.
 */
#include "lib/engine/opencl/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char message[256];

const char *zt_cl_build_message(void) { return message; }

bool zt_cl_source_has(const char *text, const char *kernel)
{
    const size_t length = strlen(kernel);
    for (const char *at = text; (at = strstr(at, kernel)) != NULL; at += length)
        if (at > text && at[-1] == '(' && (at[length] == ',' || at[length] == ')')) return true;
    return false;
}

/* The first line of what the compiler says that names an error, else the first line. */
static void read_message(cl_program program, cl_device device)
{
    size_t bytes = 0;
    message[0] = 0;
    if (zt_cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) || bytes == 0) return;
    char *log = calloc(1, bytes + 1);
    if (!log) return;
    if (!zt_cl.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL)) {
        const char *error = strstr(log, "error:"), *line = error ? error : log;
        snprintf(message, sizeof message, "%.*s", (int)strcspn(line, "\n"), line);
    }
    free(log);
}

cl_program zt_cl_build(cl_context context, cl_device device, const char *text, int *result)
{
    const bool divides = zt_cl_number(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECT_DIVIDE;
    message[0] = 0;
    cl_program program = zt_cl.clCreateProgramWithSource(context, 1, &text, NULL, result);
    if (*result) return NULL;
    *result = zt_cl.clBuildProgram(
        program, 1, &device, divides ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2", NULL, NULL);
    if (*result == CL_SUCCESS) return program;
    read_message(program, device);
    zt_cl.clReleaseProgram(program);
    return NULL;
}
