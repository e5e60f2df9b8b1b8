#!/usr/bin/env python3
"""make.py > cases.json - golden renderings of chat templates, by jinja2 as transformers sets it up.

Needs jinja2 (PyPI). The templates are those of the named models' tokenizer_config.json; what is about
tools is cut out where it is long, save the words by which a template is known. A conversation that a
template refuses is no case. "text" is the rendering without the BOS with which it begins: encoding
puts that.
"""
import json

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

ALTERNATE = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("
             "'Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}")
LLAMA2_HEAD = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
               "{% set system_message = messages[0]['content'] %}{% else %}"
               "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
               "{% for message in loop_messages %}" + ALTERNATE +
               "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + "
               "system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}"
               "{% set content = message['content'] %}{% endif %}")
LLAMA2 = (LLAMA2_HEAD + "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() "
          "+ ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + "
          "eos_token }}{% endif %}{% endfor %}")
CODELLAMA = (LLAMA2_HEAD + "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content | trim "
             "+ ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content | trim + ' ' + "
             "eos_token }}{% endif %}{% endfor %}")
VIGOGNE = ("{{ bos_token }}" + LLAMA2_HEAD + "{% if message['role'] == 'user' %}{{ '[INST] ' + "
           "content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + "
           "content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
MISTRAL_01 = ("{{ bos_token }}{% for message in messages %}" + ALTERNATE +
              "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
              "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}"
              "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}"
              "{% endif %}{% endfor %}")
MISTRAL_02 = MISTRAL_01.replace("eos_token + ' ' }}", "eos_token}}")
SPLIT_SYSTEM = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
"""
MISTRAL_V1 = SPLIT_SYSTEM + """
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token}}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported') }}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_V3 = SPLIT_SYSTEM + """{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none %}
            {{- "[AVAILABLE_TOOLS] [" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}
"""
NEMO = (MISTRAL_V3.replace('"[INST] "', '"[INST]"').replace('"[AVAILABLE_TOOLS] ["', '"[AVAILABLE_TOOLS]["')
        .replace('" " + message["content"]|trim + eos_token', 'message["content"] + eos_token'))
MISTRAL_V7 = """{{- bos_token }}
{%- for message in messages %}
    {%- if message["role"] == "user" %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- elif message["role"] == "system" %}
        {{- "[SYSTEM_PROMPT] " + message["content"] + "[/SYSTEM_PROMPT]" }}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_SMALL3 = (MISTRAL_V7.replace('"[INST] "', '"[INST]"').replace('"[SYSTEM_PROMPT] "', '"[SYSTEM_PROMPT]"')
                  .replace('" " + message["content"]', 'message["content"]'))
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
          "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
          "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
          "{{ content }}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
LLAMA31 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
PHI3 = ("{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + "
        "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + "
        "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + "
        "message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI3_SMALL = ("{{ bos_token }}{% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + "
              "message['content'] + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI4_MINI = ("{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + "
             "'<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
ZEPHYR = ("{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
          "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + "
          "message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
          "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
          "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
OLMO2 = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}"
         "{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}"
         "{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}"
         "{% if not loop.last %}{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}"
         "{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}"
         "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}")
SMOLLM2 = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
           "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
           "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
           "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
           "{% endif %}")
QWEN25 = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant") %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
GEMMA2 = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
          "supported') }}{% endif %}{% for message in messages %}" + ALTERNATE +
          "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = "
          "message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + "
          "'<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {{ message['content'] | trim }}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""
# Gemma 3's own text has no line ends between these three.
GEMMA3 = GEMMA3.replace('"") }}\n    {{ message', '"") -}}\n    {{ message').replace("| trim }}\n    {{ '<end", "| trim -}}\n    {{ '<end")
GRANITE = """{%- for message in messages %}
    {%- if message['role'] == 'system' %}
    {{- '<|start_of_role|>system<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}
    {%- elif message['role'] == 'user' %}
    {{- '<|start_of_role|>user<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}
    {%- elif message['role'] == 'assistant' %}
    {{- '<|start_of_role|>assistant<|end_of_role|>'  + message['content'] + '<|end_of_text|>\\n' }}
    {%- endif %}
    {%- if loop.last and add_generation_prompt %}
    {{- '<|start_of_role|>assistant<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}"""

# model, our name, template
MODELS = [
    ("SmolLM2", "chatml", SMOLLM2), ("Qwen2.5", "chatml", QWEN25),
    ("Gemma 2", "gemma", GEMMA2), ("Gemma 3", "gemma", GEMMA3),
    ("Llama 2", "llama2", LLAMA2), ("CodeLlama", "llama2", CODELLAMA), ("Vigogne 2", "llama2-one-bos", VIGOGNE),
    ("Llama 3", "llama3", LLAMA3), ("Llama 3.1", "llama3.1", LLAMA31),
    ("Mistral v0.1", "mistral-v0.1", MISTRAL_01), ("Mistral v0.2", "mistral", MISTRAL_02),
    ("Mistral v0.2, with a system prompt", "mistral-v1", MISTRAL_V1),
    ("Mistral v0.3", "mistral-v3", MISTRAL_V3), ("Mistral Nemo", "mistral-v3-tekken", NEMO),
    ("Mistral Large 2411", "mistral-v7", MISTRAL_V7), ("Mistral Small 3", "mistral-v7-tekken", MISTRAL_SMALL3),
    ("Phi-3", "phi3", PHI3), ("Phi-3 small", "phi3", PHI3_SMALL), ("Phi-4 mini", "phi4-mini", PHI4_MINI),
    ("Zephyr", "zephyr", ZEPHYR), ("OLMo 2", "tulu", OLMO2), ("Granite 3", "granite", GRANITE),
]

SYSTEM = {"role": "system", "content": "You are terse."}
TURNS = [{"role": "user", "content": " My name\nis Ana. "}, {"role": "assistant", "content": "Hello, Ana"},
         {"role": "user", "content": "Who am I?"}, {"role": "assistant", "content": " Ana.\n"},
         {"role": "user", "content": "Thanks"}]
CONVERSATIONS = [TURNS[:1], [SYSTEM] + TURNS[:1], TURNS[:3], TURNS, [SYSTEM] + TURNS, [SYSTEM, TURNS[2]]]


def refuse(why):
    raise jinja2.exceptions.TemplateError(why)


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.globals["raise_exception"] = refuse
    cases = []
    for model, name, text in MODELS:
        template = env.from_string(text)
        rendered = []
        for messages in CONVERSATIONS:
            try:
                out = template.render(messages=messages, bos_token="<s>", eos_token="</s>",
                                      add_generation_prompt=True)
            except jinja2.exceptions.TemplateError:
                continue
            rendered.append({"messages": messages, "text": out.removeprefix("<s>")})
        cases.append({"model": model, "name": name, "template": text, "renderings": rendered})
    print(json.dumps(cases, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
