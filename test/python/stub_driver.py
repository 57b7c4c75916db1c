"""
What stands where libcuda.so.1 stands, below the true cuda-bindings: C functions that do nothing,
or what a test gives. A process loads the driver once, so each test has a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

needs_bindings = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason="cuda-bindings is not installed"
)

_DRIVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
typedef int result;
typedef unsigned long long u64;

result cuDriverGetVersion(int *version) { *version = 13000; return 0; }
result cuInit(unsigned flags) { return 0; }
result cuDeviceGet(int *device, int number) { *device = number; return number > 0 ? 101 : 0; }
result cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
result cuCtxPushCurrent(void *context) { return 0; }
result cuCtxPopCurrent(void **context) { *context = (void *)1; return 0; }
result cuModuleLoad(void **module, const char *path) { *module = (void *)2; return 0; }
result cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = (void *)3;
  return 0;
}
result cuGetErrorString(int code, const char **text) { *text = "what it says"; return 0; }

result cuGetProcAddress_v2(
    const char *name, void **function, int version, u64 flags, int *status) {
  Dl_info self;
  dladdr((void *)cuGetProcAddress_v2, &self);
  *function = dlsym(dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD), name);
  if (status) *status = *function == NULL;
  return *function == NULL ? 500 : 0;
}
result cuGetProcAddress(const char *name, void **function, int version, u64 flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
"""


def run_with_driver(functions: str, script: str, folder: Path) -> Any:
    """What a script prints as JSON, with a driver of the functions above and of others in C."""
    source, library = folder / "driver.c", folder / "libcuda.so.1"
    source.write_text(_DRIVER + functions)
    build = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, source, "-ldl"]
    subprocess.run(build, check=True)
    environment = os.environ | {
        "LD_LIBRARY_PATH": os.pathsep.join([str(folder), os.environ.get("LD_LIBRARY_PATH", "")]),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
