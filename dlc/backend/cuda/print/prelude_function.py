"""One function of the prelude, with its device body and its host body."""

from dataclasses import dataclass

INLINE = "__device__ __forceinline__"


@dataclass(frozen=True)
class Function:
    """One entry of the prelude: a function, or the few overloads of one, or a type."""

    name: str
    summary: str
    """One line in terms of the caller, with the section of the PTX ISA behind it where there is."""
    signature: str
    """C declarator with the template head, if any; of types and overloads, the whole text."""
    device: str = ""
    """Body for nvcc; empty where `signature` is the whole text."""
    host: str = ""
    """Body for the host's compiler where it differs."""
    needs: tuple[str, ...] = ()
    """Names of the entries that the body mentions."""
    min_arch: int = 75
    """The first compute capability (80 = sm_80) that has the instruction."""
    last_arch: int = 0
    """The last one that has it; 0 where all later ones do."""
    older: str = ""
    """Body for nvcc on older ones, if there is another way."""
    device_only: bool = False
    """The host's text does not mention it."""

    def is_of(self, arch: int) -> bool:
        """True if a compute capability has the instruction."""
        return self.min_arch <= arch <= (self.last_arch or arch)

    def text(self, arch: int) -> str:
        """The definition as it stands in a printed kernel for a compute capability."""
        if not self.device:
            return f"// {self.summary}\n{self.signature}\n"
        body = _indent((arch < self.min_arch and self.older) or self.device)
        if self.host:
            body = f"#ifdef __CUDACC__\n{body}#else\n{_indent(self.host)}#endif\n"
        text = f"// {self.summary}\n{self.signature} {{\n{body}}}\n"
        return f"#ifdef __CUDACC__\n{text}#endif\n" if self.device_only else text


def _indent(body: str) -> str:
    return "".join(f"  {line}\n" for line in body.splitlines())
