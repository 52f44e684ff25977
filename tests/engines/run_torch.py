"""Runs a small model with PyTorch, eagerly, and has the library's own profiler list the operators of the last run.

run_torch.py FOLDER RUNS

FOLDER/profile.json gets the version, the profiler's operators of the last run in order, the name that the profiler has
for each of the library's functions, and shapes that the model fixes.
"""

import json
import os
import sys
import time

import torch

BATCH, CHANNELS, SIDE, WIDTH = 1, 8, 24, 64


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(CHANNELS)
        self.head = torch.nn.Linear(CHANNELS, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 128, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        y = torch.relu(self.norm(self.stem(x)))
        y = self.head(y.flatten(2).transpose(1, 2))
        y = self.encoder(y)
        # Six extents, more than a tensor has in place; several results; a list of them.
        y = y.reshape(1, 2, SIDE // 2, 2, SIDE // 2, WIDTH).permute(0, 2, 4, 1, 3, 5).contiguous()
        values, _ = torch.topk(y.flatten(), 5)
        return torch.stack(torch.split(torch.softmax(values, 0), 1))


def main() -> None:
    folder, runs = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, x = Model().eval(), torch.rand(BATCH, 3, SIDE, SIDE)
    with torch.inference_mode():
        for _ in range(runs):
            model(x)
            time.sleep(0.02)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            model(x)
    events = [event for event in profile.events() if event.name.startswith("aten::")]
    events.sort(key=lambda event: (event.time_range.start, -event.time_range.end, event.id))
    names = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            overload = "_" + schema.overload_name if schema.overload_name else ""
            names[schema.name.removeprefix("aten::") + overload] = schema.name
    with open(os.path.join(folder, "profile.json"), "w", encoding="utf-8") as out:
        json.dump({"version": torch.__version__, "operators": [event.name for event in events], "names": names}, out)


if __name__ == "__main__":
    main()
