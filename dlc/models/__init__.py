"""
Hugging Face models as programs: a configuration, weights where they are wanted, inputs.

`transformers`, `safetensors` and `huggingface_hub` are imported when a model is asked for, so that
dlc needs none of them for anything else.
"""
