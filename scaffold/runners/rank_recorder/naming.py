"""Name modules and parameters as the model does, whatever it is wrapped in."""

import sys
import weakref

WRAPPERS = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"}


class Names:
    """The modules that were called, by their name below the outermost one."""

    def __init__(self):
        self.roots = []
        self._modules = weakref.WeakKeyDictionary()
        self._parameters = {}
        self._stack = []

    def enter(self, module):
        """Enter a module that is called, and return whether it is a model not seen before."""
        is_new = not self._stack and module not in self._modules
        if is_new:
            self._add(module)
        self._stack.append(module)
        return is_new

    def leave(self, module):
        """Leave a module whose call is over, and return whether it was the outermost."""
        # Hooks of modules that raised were not called, so theirs are still on the stack.
        while self._stack and self._stack.pop() is not module:
            pass
        return not self._stack

    @property
    def current(self):
        """The name of the innermost module that is being called, or ""."""
        return self.of(self._stack[-1]) if self._stack else ""

    def of(self, module):
        """Return the name of a module."""
        name = self._modules.get(module)
        if name is None:  # made after its model was first called
            name = self._modules[module] = f"?.{type(module).__name__}"
        return name

    def of_parameter(self, parameter):
        """Return the name of a parameter, or ""."""
        return self._parameters.get(id(parameter), "")

    def _add(self, root):
        label = _label(root)
        same = sum(1 for known, _ in self.roots if known.split("#")[0] == label)
        label = f"{label}#{same + 1}" if same else label
        self.roots.append((label, weakref.ref(root)))
        for name, module in root.named_modules():
            if module not in self._modules:
                self._modules[module] = full_name(label, name, root)
        for name, parameter in root.named_parameters():
            self._parameters.setdefault(id(parameter), full_name(label, name, root))

    def models(self):
        """Yield the models that are still there, with their names."""
        for label, reference in self.roots:
            root = reference()
            if root is not None:
                yield label, root


def _is_wrapper(module):
    return type(module).__name__ in ("DistributedDataParallel", "DataParallel")


def _label(root):
    inner = root.module if _is_wrapper(root) else root
    inner = getattr(inner, "_orig_mod", inner)
    name = type(inner).__name__
    is_sharded = any(base.__name__ == "FSDPModule" for base in type(inner).__mro__)
    return name[4:] if is_sharded and name.startswith("FSDP") else name


def full_name(label, name, root):
    """Return a name below a model's label, without the names of wrappers."""
    parts = [part for part in name.split(".") if part and part not in WRAPPERS]
    if _is_wrapper(root) and parts and parts[0] == "module":
        parts = parts[1:]
    return ".".join([label, *parts])


def tensors_in(value, name=""):
    """Yield the tensors in what a module returns, with the way to them."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from tensors_in(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for at, each in enumerate(value):
            yield from tensors_in(each, f"{name}.{at}" if name else str(at))
    elif hasattr(value, "__dataclass_fields__"):
        for key in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, key, None), f"{name}.{key}" if name else key)


def local_of(tensor):
    """Return the part of a tensor that this process holds; of a plain one that is all."""
    while True:
        inner = getattr(tensor, "_local_tensor", None)  # of a DTensor
        if inner is None:
            inner = getattr(tensor, "elem", None)  # of a collective's result not waited for
        if inner is None:
            return tensor
        tensor = inner.wait() if hasattr(inner, "trigger_wait") else inner
