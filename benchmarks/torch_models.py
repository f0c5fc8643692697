"""The models and samples of the benchmarks in PyTorch: the same networks, sizes and hyperparameters as the examples
have (examples/gpt/gpt_net.cpp, examples/mnist/mnist_net.h), for comparisons with loops written in Python."""

import pathlib

import torch
from torch import nn
from torch.nn import functional as F


class GptBlock(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, time, width = x.shape
        # [B, T, 3, heads, width / heads] -> 3 x [B, heads, T, width / heads]
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Bytes, int64 [B, T], to logits, float [B, T, 256]."""

    def __init__(self, layers=4, heads=4, width=128, context=128):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GptBlock(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                adds = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, 0, 0.02 / (2 * layers) ** 0.5 if adds else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)

    def loss(self, batch, forward=None):
        """`forward`: the model in a wrapper."""
        x, y = batch
        return F.cross_entropy((forward or self)(x.long()).flatten(0, 1), y.long().flatten())

    def optimizer(self, **kind):
        matrices = [p for p in self.parameters() if p.dim() >= 2]
        others = [p for p in self.parameters() if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), **kind)


class Mnist(nn.Module):
    """Images, uint8 [B, 1, 28, 28], to logits, float [B, 10]. `kind`: mlp or cnn."""

    def __init__(self, kind):
        super().__init__()
        if kind == "mlp":
            layers = [nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
        else:
            layers = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)]
        self.net = nn.Sequential(*layers)

    def forward(self, images):
        return self.net(images.float().mul_(1 / 255))

    def loss(self, batch, forward=None):
        x, y = batch
        return F.cross_entropy((forward or self)(x), y)

    def optimizer(self, **kind):
        return torch.optim.Adam(self.parameters(), lr=1e-3, **kind)


def text_samples(path, context):
    """Windows of the first nine tenths of a file and the same a byte further: two uint8 [N, T]."""
    text = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8)
    samples = (text.numel() // 10 * 9 - context - 1) // context + 1
    return tuple(torch.as_strided(text, (samples, context), (context, 1), offset) for offset in (0, 1))


def mnist_samples(folder):
    """The training images, uint8 [N, 1, 28, 28], and labels, int64 [N], of MNIST's unpacked files."""

    def read(name, skip):
        content = bytearray((pathlib.Path(folder) / name).read_bytes())
        return torch.frombuffer(content, dtype=torch.uint8)[skip:]

    return read("train-images-idx3-ubyte", 16).view(-1, 1, 28, 28), read("train-labels-idx1-ubyte", 8).long()


def add_work_arguments(parser):
    parser.add_argument("--model", choices=["mlp", "cnn", "gpt"], required=True)
    parser.add_argument("--data", required=True, help="the folder of MNIST's unpacked files, or a text file")
    parser.add_argument("--batch", type=int, required=True)
    for name, size in (("layers", 4), ("heads", 4), ("width", 128), ("context", 128)):
        parser.add_argument(f"--{name}", type=int, default=size)


def make_work(options):
    """The model and its samples."""
    if options.model == "gpt":
        model = Gpt(options.layers, options.heads, options.width, options.context)
        return model, text_samples(options.data, options.context)
    return Mnist(options.model), mnist_samples(options.data)
