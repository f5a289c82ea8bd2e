# ruff: noqa: E501, SIM905 -- strings as they are
"""Strings that tokenizers disagree about."""

from __future__ import annotations

import random

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "I'm sure they've said it's what we'd do; you'll see, he isn't, they're, o'clock, 'tis.",
    "I'M SURE THEY'VE SAID IT'S WHAT WE'D DO; YOU'LL SEE.",
    "rock'n'roll 'quoted' ''double'' 'S 'T 're'VE 'll'LL d'd ’s it’s",
    "Dr. Smith paid $1,234,567.89 (approx. 12.5%) on 2024-02-29T23:59:60Z, order #00042!",
    "What is 3333+777? 3333*777=2589741; 1e-10, 0x1F, 0b1010, 1_000_000, 1.5.2, ½ ² ³ Ⅷ ٣٤٥ १२३",
    "See https://user:pass@example.com:8080/a/b/../c?q=1&r=%20x#frag or mailto:a.b+c@d-e.co.uk.",
    "Über naïve Café façade, Ärger, Straße, cœur, Łódź, Žižek, İstanbul ı, Ǆ ǅ ǆ, ﬁ ﬂ",
    "Cafe\u0301 nai\u0308ve a\u0300\u0301\u0302\u0303 Z̷̡͍a̸l̶g̴o̵ \u1e9b\u0323",
    "Ελληνικά: Η γρήγορη καφέ αλεπού ΠΗΔΆ πάνω από το τεμπέλικο σκυλί.",
    "Русский: Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлка ѣ ѳ",
    "Українська: Жебракують філософи при ґанку церкви в Гадячі, ще й шатро їхнє п'яне.",
    "中文：我能吞下玻璃而不伤身体。２０２４年１２月３１日，价格￥１２３．４５元。",
    "繁體：這是一個測試，「引號」、『雙引號』；全形　空格。",
    "日本語：私はガラスを食べられます。それは私を傷つけません。ｶﾀｶﾅ ヴァイオリン 々〆〤",
    "한국어: 나는 유리를 먹을 수 있어요. 그래도 아프지 않아요. ㄱㄴㄷ ㅏㅑ 각",
    "العربية: أنا قادر على أكل الزجاج و هذا لا يؤلمني. ٠١٢٣٤٥٦٧٨٩ ﷺ لا إِلٰهَ",
    "فارسی: من می‌توانم بدونِ احساس درد شيشه بخورم. ۰۱۲۳۴۵۶۷۸۹",
    "עברית: אני יכול לאכול זכוכית וזה לא מזיק לי. שָׁלוֹם ״ציטוט״ צה\u05f4ל",
    "हिन्दी: मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती। क्षत्रिय ज्ञान श्री",
    "বাংলা: আমি কাঁচ খেতে পারি, তাতে আমার কোনো ক্ষতি হয় না।",
    "தமிழ்: நான் கண்ணாடி சாப்பிடுவேன், அதனால் எனக்கு ஒரு கேடும் வராது.",
    "ไทย: ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ ๐๑๒๓๔๕ กรุงเทพฯ น้ำ ปั๊ม",
    "ລາວ ខ្មែរ မြန်မာ བོད་སྐད་ ქართული Ქართული հայերեն አማርኛ ᏣᎳᎩ ᓀᐦᐃᔭᐍᐏᐣ ᠮᠣᠩᠭᠣᠯ",
    "Tiếng Việt: Tôi có thể ăn thủy tinh mà không hại gì. ĂẮẰẲẴẶ",
    "😀😃 👍🏽 👩🏾‍🚀 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ 1️⃣ #️⃣ ☺︎ ☺️ 🫠🫨 🧑🏿‍❤️‍💋‍🧑🏻 \U0001f9d1\u200d\U0001f4bb",
    "𝐇𝐞𝐥𝐥𝐨 𝕎𝕠𝕣𝕝𝕕 𝟏𝟐𝟑 𝔘𝔫𝔦 𐐷𐑌 𒀀𒁀 𓀀𓂀 𠀀𪛖 🀄 🂡 𝄞 ∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ ≠ ∞ ∑∏∫√ ⊂⊃ ⟨ψ|φ⟩ ±×÷",
    "→ ← ↑ ↓ ⇒ ─│┌┐└┘├┤ ═║╔╗ ▀▄█░▒▓ ■□●○ ★☆ ✓✗ ™®©℠ §¶†‡•‣…‰′″ €£¥₹₽₿¢ №℅ ª º ¿¡",
    "{\"a\": [1, 2.5e-3, null, true], \"b\\n\": \"\\u00e9\\\"\", \"c\": {}}",
    "<!DOCTYPE html><p class='x'>a &amp; b&nbsp;&#8364;</p><!-- c --><br/>",
    "# Title\n\n- item *one*\n  - item `two`\n\n| a | b |\n|---|:-:|\n> quote\n\n```py\nx = 1\n```\n---\n",
    "SELECT a.id, COUNT(*) AS n FROM t1 a LEFT JOIN t2 ON a.id=t2.id WHERE x<>'y' GROUP BY 1;",
    "$$\\int_{-\\infty}^{\\infty} e^{-x^2}\\,dx = \\sqrt{\\pi}$$ \\begin{align} a &= b \\\\ \\end{align}",
    "camelCase PascalCase snake_case SCREAMING_SNAKE kebab-case dot.case HTTPServer2XMLParser iOS17",
    "2001:0db8:85a3::8a2e:0370:7334 192.168.0.1/24 AA:BB:CC:DD:EE:FF {123e4567-e89b-12d3-a456}",
    "SHA256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 dGVzdA== +/9j/4AAQ",
    "Mr.&Mrs. O'Neill-Smith (a.k.a. \"Bob\") -- e.g., i.e.; etc... wait?! no!!! ok?? ~100% @home #1",
)  # fmt: skip

CODE = (
    "def f(x: int = 0, *args, **kw) -> str:\n    \"\"\"Doc.\"\"\"\n\tif x != 1:\n        return f'{x!r:>10}'\n",
    "class A(B):\n\n    @property\n    def y(self):  # comment\n        return [i**2 for i in range(10) if i % 2 == 0]\n\n\n",
    "#include <stdio.h>\nint main(void) {\n\tfor (int i = 0; i < 10; ++i) printf(\"%d\\n\", i);\n\treturn 0;\n}\n",
    "template<typename T> auto f(T&& x) -> decltype(x + 1) { return std::forward<T>(x) + 1; } // C++\r\n",
    "fn main() -> Result<(), Box<dyn Error>> {\n    let v: Vec<u8> = vec![0u8; 1 << 10];\n    Ok(())\n}",
    "const f = async ({a, b: [c] = []}) => { await g(`x=${a ?? c?.d}`); return a !== b && !c; };\n",
    "interface X<T extends keyof Y> { readonly a?: T | undefined; [k: string]: unknown }\n",
    "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tch := make(chan int)\n\tgo func() { ch <- 1 }()\n\tfmt.Println(<-ch)\n}\n",
    "public static void main(String[] args) throws IOException { System.out.println(\"Hi\\t\" + 1L); }",
    "main = do { x <- getLine; putStrLn $ \"a\" ++ show (x :: String) } where f = \\y -> y >>= id\n",
    "#!/bin/bash\nset -euo pipefail\nfor f in *.txt; do echo \"${f%.txt}\" | sed 's/a/b/g' >> out 2>&1; done\n",
    "a <- c(1,2,3); df %>% filter(x > 2) %>% summarise(m = mean(y, na.rm=TRUE))\n",
    "(defn f [x & xs] (reduce + (map #(* % %) xs))) ;; lisp\n(let ((a 1)) `(,a ,@b))",
    "[tool.x]\nkey = \"v\"\nlist = [\n  1,\n    2,\n]\n\n---\nyaml:\n  - a: &x {b: 1}\n    <<: *x\n",
    "int a[] = {0x00, 0xFF, 'a', '\\n', L'\\0', 1'000'000, 1e+10f, .5, 0777};\n#define X(a) a##_##a\\\n  b",
    "<?php $x = $_GET['a'] ?? \"b{$c->d}\"; foreach ($x as $k => $v): ?><b><?= $v ?></b><?php endforeach;",
    "<|im_start|>user\nprint('<|im_end|>')<|im_end|>\n<|im_start|>assistant\n",
    "diff --git a/x b/x\n@@ -1,3 +1,4 @@\n-old\n+new\n \tsame\n\\ No newline at end of file\n",
    "FROM python:3.11-slim AS b\nRUN apt-get update && \\\n    pip install --no-cache-dir -r r.txt\n",
    "MOV EAX, [EBX+4*ECX-0x10] ; asm\n\tjnz .L1\n.L1:\tret\n",
)  # fmt: skip

SPECIAL = (
    "<|endoftext|> <|im_start|> <|im_end|> <repo_name> <reponame> <file_sep> <filename> <gh_stars> "
    "<issue_start> <issue_comment> <issue_closed> <jupyter_start> <jupyter_text> <jupyter_code> "
    "<jupyter_output> <jupyter_script> <empty_output>"
).split()

SPACES = (
    " ", "  ", "   ", "\t", "\t\t", " \t", "\n", "\n\n", "\n\n\n\n\n\n\n\n", "\r", "\r\n", "\r\n\r\n",
    "\n \n", " \n", "\n ", "\n\t", "\v", "\f", "\x85", "\xa0", "\xa0\xa0", "\u1680", "\u2002\u2003",
    "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff", "\u180e",
    "\x1c\x1d\x1e\x1f", " " * 17, "\t" * 9, "\n" * 20, " \xa0 \u3000\t\n  ",
)  # fmt: skip

WORDS = ("a", "word", "Hello", "x1", "42", "é", "中", "!", "...", "'s", "_", "-", "/*", "😀")

# Where random characters come from: first and last code point.
BLOCKS = (
    (0x00, 0x20), (0x21, 0x7E), (0x7F, 0xA0), (0xA1, 0x24F), (0x250, 0x36F), (0x370, 0x52F),
    (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF), (0x1E00, 0x1FFF), (0x2000, 0x206F),
    (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xE000, 0xE0FF),
    (0xFB00, 0xFFFD), (0x10000, 0x1044F), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF),
    (0x20000, 0x2FFFF), (0xE0000, 0xE01EF), (0x40000, 0xBFFFF), (0xF0000, 0x10FFFF),
)  # fmt: skip


def smollm2_texts() -> list[str]:
    """All strings, without repetition; the same ones each time."""
    draw = random.Random(2024)
    texts = ["", *SENTENCES, *CODE, *SPECIAL, *SPACES]
    texts += _spaced() + _numbers(draw) + _special(draw) + _cut(draw) + _long() + _controls()
    texts += [_random_text(draw) for _ in range(420)]
    return list(dict.fromkeys(texts))


def _spaced() -> list[str]:
    texts = []
    for index, space in enumerate(SPACES):
        for offset, word in enumerate(WORDS):
            other = WORDS[(index + offset) % len(WORDS)]
            texts.append((word + space + other, space + word, word + space)[(index + offset) % 3])
    return texts


def _numbers(draw: random.Random) -> list[str]:
    texts = ["7" * length for length in range(1, 16)]
    for _ in range(120):
        number = str(draw.randrange(10 ** draw.randint(1, 12)))
        texts.append(
            draw.choice(("{}", " {}", "x{}", "{}px", "-{}.5", "${},00", "({})")).format(number)
        )
    return texts


def _special(draw: random.Random) -> list[str]:
    around = ("", " ", "\n", "a", ".", "<", ">", "|", "é", "中", "\xa0")
    texts = []
    for token in SPECIAL:
        texts += [token * 2, token[:-1], token[1:], token.upper(), f"{token[:4]} {token[4:]}"]
        texts += [draw.choice(around) + token + draw.choice(around) for _ in range(6)]
    return texts


def _cut(draw: random.Random) -> list[str]:
    """Pieces of the sentences and the code, so that words start and end anywhere."""
    texts = []
    for source in (SENTENCES + CODE) * 11:
        start = draw.randrange(len(source))
        texts.append(source[start : start + draw.randint(3, 40)])
    return texts


def _long() -> list[str]:
    return [
        "a" * 1000, "ab" * 400, "antidisestablishmentarianism" * 12, "supercalifragilistic" * 9,
        "é" * 300, "中" * 300, "😀" * 100, "0123456789" * 30, "=" * 200, "-=" * 150, " " * 500,
        "\n" * 300, " \n" * 200, "e\u0301" * 120, "\u200d" * 50, "!?" * 80, "العربية" * 40, "ก" * 200,
    ]  # fmt: skip


def _controls() -> list[str]:
    lone = [chr(code) for code in (*range(0x21), *range(0x7F, 0xA1))]
    return lone + [f"<{c}=" for c in lone] + [f"a{c}b" for c in lone] + ["\x00\x01\x02", "\x1b[31m"]


def _random_text(draw: random.Random) -> str:
    blocks = draw.sample(BLOCKS, draw.randint(1, 3))
    return "".join(chr(draw.randint(*draw.choice(blocks))) for _ in range(draw.randint(1, 14)))
