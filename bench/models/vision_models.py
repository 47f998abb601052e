"""Vision models of torchvision and timm, with random weights and ten classes."""

import torch


def image(batch=2, size=64):
    """Inputs of an image model; what is returned takes another batch size."""
    return lambda batch=batch: (torch.randn(batch, 3, size, size),)


def torchvision_models():
    from torchvision import models
    from torchvision.models import segmentation

    names = ("resnet18 resnet50 resnext50_32x4d mobilenet_v2 mobilenet_v3_small efficientnet_b0 densenet121 squeezenet1_1 shufflenet_v2_x0_5 "
             "mnasnet0_5 regnet_y_400mf convnext_tiny vgg11_bn alexnet googlenet").split()
    for name in names:
        extra = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        yield name, (lambda name=name, extra=extra: getattr(models, name)(num_classes=10, **extra)), image(4, 64), {}
    yield "vit", lambda: models.VisionTransformer(64, 16, 3, 4, 128, 256, num_classes=10), image(), {}
    yield "swin", (lambda: models.SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4], num_classes=10)), image(), {}
    yield "fcn_resnet50", lambda: segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5), image(), {}
    yield "deeplabv3", lambda: segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), image(), {}
    yield "lraspp", lambda: segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), image(), {}


def timm_models():
    import timm

    names = ("mixer_s32_224 resmlp_12_224 ghostnet_050 mobilenetv2_050 efficientnet_lite0 tf_efficientnet_b0 res2net50_26w_4s "
             "dla34 repvgg_a0 xcit_nano_12_p16_224 deit_tiny_patch16_224 poolformer_s12 edgenext_xx_small mobilevit_xxs "
             "levit_128s").split()
    resized = ("xcit", "deit")
    full = ("levit", "resmlp", "mixer")
    for name in names:
        size = 224 if name.startswith(full) else 64
        extra = {"img_size": 64} if name.startswith(resized) else {}
        make = lambda name=name, extra=extra: timm.create_model(name, pretrained=False, num_classes=10, **extra)
        yield "timm." + name, make, image(2, size), {}


def models():
    yield from torchvision_models()
    yield from timm_models()
