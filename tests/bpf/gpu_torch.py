"""What gpu.bash traces: PyTorch, which prints what its own allocator counted."""
import json
import os
import sys

import torch

MIB = 1 << 20


def tensors():
    """Large ones, of whole MiB, some given back; no library that allocates by itself."""
    kept = [torch.empty(n * MIB, dtype=torch.uint8, device="cuda") for n in (2, 20, 64, 128)]
    del kept[1]
    torch.cuda.empty_cache()
    kept.append(torch.empty(200 * MIB, dtype=torch.uint8, device="cuda"))
    return kept


def train():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(256, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
    return model


kept = train() if sys.argv[1:] == ["train"] else tensors()
torch.cuda.synchronize()
stats = torch.cuda.memory_stats()
print(json.dumps({
    "reserved_peak": stats.get("reserved_bytes.all.peak"),
    "allocated_peak": stats.get("allocated_bytes.all.peak"),
    "segments": stats.get("segment.all.allocated"),
}), flush=True)
os._exit(0)  # no frees at exit: the peak stays to the end
