"""Scenes in words: English, Korean, Chinese and Arabic.

`caption` gives the usual words. With a source of chance it varies names, articles, order and relation words,
so that the text encoder learns more than one way to say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sdjax_engine.demo.objects import OBJECTS, Language
from sdjax_engine.demo.scenes import COLOURS, SHAPES, Scene, Thing

Words = Mapping[str, tuple[str, ...]]


class Choice:
    """Chooses between words: the first without a source of chance, and else the first half of the time."""

    def __init__(self, rng: np.random.Generator | None) -> None:
        self._rng = rng

    def of(self, words: Sequence[str]) -> str:
        """Return one of the words."""
        if self._rng is None or len(words) == 1 or self._rng.random() < 0.5:
            return words[0]
        return words[int(self._rng.integers(1, len(words)))]

    def sometimes(self, part: float) -> bool:
        """Return whether to leave the usual way; never without a source of chance."""
        return self._rng is not None and bool(self._rng.random() < part)


def caption(scene: Scene, language: Language = "en", rng: np.random.Generator | None = None) -> str:
    """Return a caption of the scene, in random words with `rng`."""
    return _GRAMMARS[language](scene, Choice(rng))


def _words(**words: str) -> Words:
    """Return words by their English names; alternatives are separated by a bar."""
    return {name.replace("_", " "): tuple(each.split("|")) for name, each in words.items()}


def _name(thing: Thing, language: Language, shapes: Words, choice: Choice) -> str:
    return choice.of(shapes[thing.name] if thing.is_shape else OBJECTS[thing.name].names[language])


def _is_animal(thing: Thing) -> bool:
    return not thing.is_shape and OBJECTS[thing.name].kind == "animals"


# English

_EN_SIZES = _words(small="small|little|tiny", large="large|big|huge")
_EN_RELATIONS = _words(
    left_of="left of|to the left of|on the left of|and|and|next to|beside|with",
    right_of="right of|to the right of|on the right of",
    above="above|over|on top of",
    below="below|under|beneath",
    between="between",
)
_EN_GROUNDS = _words(
    meadow="on a meadow|on grass under a blue sky|in a field",
    beach="on a beach|at the beach|by the sea",
    snow="in the snow|on snow",
    night="at night|under the stars",
    sunset="at sunset",
    underwater="underwater|under water",
)
_EN_STYLES = _words(
    black_and_white="black and white|in black and white",
    pixel_art="pixel art|in pixels|pixel art style",
    pencil_sketch="pencil sketch|pencil drawing|sketch|in pencil",
    blueprint="blueprint|as a blueprint",
)
_EN_SHAPES = {shape: (shape,) for shape in SHAPES}
_EN_UNCOUNTED = frozenset(
    {
        "bread",
        "corn",
        "garlic",
        "cheese",
        "honey",
        "coffee",
        "rice",
        "sushi",
        "lightning",
        "fire",
        "popcorn",
        "yarn",
        "wood",
        "rain",
        "broccoli",
        "luggage",
        "meat",
        "ramen",
        "tennis",
        "pong",
        "bowling",
    }
)
_EN_PLURALS = frozenset(
    {
        "blueberries",
        "grapes",
        "cherries",
        "peanuts",
        "fries",
        "noodles",
        "pancakes",
        "bricks",
        "books",
        "scissors",
        "jeans",
        "trousers",
        "pants",
        "gloves",
        "socks",
        "glasses",
        "sunglasses",
        "shoes",
        "headphones",
        "dice",
        "pins",
        "eyes",
    }
)
_EN_IRREGULAR = {
    "mouse": "mice",
    "wolf": "wolves",
    "leaf": "leaves",
    "loaf": "loaves",
    "scarf": "scarves",
    "tooth": "teeth",
    "snowman": "snowmen",
    "die": "dice",
    "bow and arrow": "bows and arrows",
}
_EN_SAME = frozenset({"fish", "jellyfish", "sheep", "deer", "shrimp", "squid"})
_EN_STARTS = ("a picture of", "a drawing of", "a photo of", "an image of", "draw", "paint")


def english_plural(name: str) -> str:
    """Return the plural of a name of an object."""
    if name in _EN_IRREGULAR:
        return _EN_IRREGULAR[name]
    head, link, rest = re.split(r"( of | with |$)", name, maxsplit=1)
    *before, noun = head.split(" ")
    return " ".join([*before, _plural_noun(noun)]) + link + rest


def _plural_noun(noun: str) -> str:
    if noun in _EN_PLURALS | _EN_SAME | _EN_UNCOUNTED:
        return noun
    if noun in _EN_IRREGULAR:
        return _EN_IRREGULAR[noun]
    if noun.endswith(("s", "x", "ch", "sh", "tomato", "volcano")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def _english(scene: Scene, choice: Choice) -> str:
    things = [_english_thing(thing, choice) for thing in scene.things]
    relation = choice.of(_EN_RELATIONS[scene.relation]) if scene.relation else ""
    if relation == "between":
        first, second, third = things
        text = f"{first} between {second} and {third}"
        if choice.sometimes(0.2):
            text = f"{second}, {first} and {third}"
    else:
        text = f" {relation} ".join(things)
    if scene.says_ground:
        plain = (
            f"on {_article(scene.ground)} background",
            f"on {scene.ground}",
            f"{scene.ground} background",
            f"with {_article(scene.ground)} background",
        )
        text = f"{text} {choice.of(plain if scene.ground in COLOURS else _EN_GROUNDS[scene.ground])}"
    if scene.style:
        style = choice.of(_EN_STYLES[scene.style])
        if choice.sometimes(0.3) and not style.startswith(("in ", "as ")) and not style.endswith(" style"):
            picture = " picture" if style == "black and white" else ""
            return f"{style}{picture} of {text}"
        text = f"{text}, {style}"
    return f"{choice.of(_EN_STARTS)} {text}" if choice.sometimes(0.06) else text


def _english_thing(thing: Thing, choice: Choice) -> str:
    size = choice.of(_EN_SIZES[thing.size]) if thing.size else ""
    name = _name(thing, "en", _EN_SHAPES, choice)
    if thing.count > 1:
        plural = english_plural(name)
        number = choice.of({2: ("two", "2"), 3: ("three", "3")}[thing.count])
        if thing.count == 2 and plural != name and choice.sometimes(0.1):
            number = ""
        return " ".join(filter(None, (number, size, thing.colour, plural)))
    words = " ".join(filter(None, (size, thing.colour, name)))
    bare = {*name.split(" ")} & (_EN_PLURALS | _EN_UNCOUNTED) and " of " not in name
    return words if bare or choice.sometimes(0.12) else _article(words)


def _article(words: str) -> str:
    vowel = words[0] in "aeiou" and not words.startswith(("uni", "ufo", "uku"))
    return f"an {words}" if vowel or words.startswith("hour") else f"a {words}"


# Korean

_KO_SIZES = _words(small="작은|조그만", large="큰|커다란")
_KO_COLOURS = _words(
    red="빨간|빨간색|붉은",
    green="초록색|녹색",
    blue="파란|파란색",
    yellow="노란|노란색",
    purple="보라색",
    orange="주황색",
    white="하얀|흰색|흰",
    black="검은|검은색|까만",
    pink="분홍색|핑크색",
    cyan="하늘색|청록색",
)
_KO_SHAPES = _words(
    circle="원|동그라미",
    square="사각형|네모",
    triangle="삼각형|세모",
    star="별",
    heart="하트",
    ring="고리",
    moon="달",
    cross="십자가",
    diamond="마름모",
    flower="꽃",
)
_KO_RELATIONS = _words(
    left_of="왼쪽에|왼쪽에 있는|왼쪽",
    right_of="오른쪽에|오른쪽에 있는|오른쪽",
    above="위에|위에 있는|위",
    below="아래에|아래에 있는|밑에",
    between="사이에|사이에 있는",
)
_KO_GROUNDS = _words(
    meadow="초원|잔디밭",
    beach="해변|바닷가",
    snow="눈밭|눈 속",
    night="밤|밤하늘",
    sunset="노을|해질녘",
    underwater="물속|바닷속",
)
_KO_STYLES = _words(
    black_and_white="흑백|흑백 그림",
    pixel_art="픽셀 아트|도트 그림",
    pencil_sketch="연필 스케치|연필 그림|스케치",
    blueprint="청사진|설계도",
)


def _korean(scene: Scene, choice: Choice) -> str:
    first, *others = (_korean_thing(thing, choice) for thing in scene.things)
    if scene.relation == "between":
        left, right = others
        text = f"{_with(left)} {right} {choice.of(_KO_RELATIONS['between'])} {first}"
    elif scene.relation == "left of" and choice.sometimes(0.15):
        text = f"{_with(first)} {others[0]}"
    elif scene.relation:
        text = f"{others[0]} {choice.of(_KO_RELATIONS[scene.relation])} {first}"
    else:
        text = first
    if scene.says_ground:
        if scene.ground in COLOURS:
            ground = f"{choice.of(_KO_COLOURS[scene.ground])} 배경"
        else:
            ground = choice.of(_KO_GROUNDS[scene.ground])
        text = f"{ground}에 {text}" if choice.sometimes(0.4) else f"{text}, {ground}"
    return f"{text}, {choice.of(_KO_STYLES[scene.style])}" if scene.style else text


def _korean_thing(thing: Thing, choice: Choice) -> str:
    size = choice.of(_KO_SIZES[thing.size]) if thing.size else ""
    colour = choice.of(_KO_COLOURS[thing.colour]) if thing.colour else ""
    words = " ".join(filter(None, (size, colour, _name(thing, "ko", _KO_SHAPES, choice))))
    if thing.count == 1:
        return words
    number, alone = {2: ("두", "둘"), 3: ("세", "셋")}[thing.count]
    counter = "마리" if _is_animal(thing) else "개"
    return f"{words} {choice.of((f'{number} {counter}', alone, f'{thing.count}{counter}'))}"


def _with(words: str) -> str:
    """Return Korean words with the particle "and", which depends on whether they end in a consonant."""
    last = ord(words[-1]) - 0xAC00
    return f"{words}{'과' if 0 <= last < 11172 and last % 28 else '와'}"


# Chinese

_ZH_SIZES = _words(small="小小的|很小的|小的", large="大大的|很大的|巨大的")
_ZH_COLOURS = _words(
    red="红色|红",
    green="绿色|绿",
    blue="蓝色|蓝",
    yellow="黄色|黄",
    purple="紫色|紫",
    orange="橙色|橘色",
    white="白色|白",
    black="黑色|黑",
    pink="粉色|粉红色",
    cyan="青色|天蓝色",
)
_ZH_SHAPES = _words(
    circle="圆形|圆圈|圆",
    square="正方形|方块",
    triangle="三角形",
    star="星星|星形",
    heart="心|心形",
    ring="圆环",
    moon="月亮",
    cross="十字",
    diamond="菱形",
    flower="花",
)
_ZH_RELATIONS = _words(
    left_of="左边|左侧|左面",
    right_of="右边|右侧|右面",
    above="上面|上方|上边",
    below="下面|下方|下边",
    between="之间|中间",
)
_ZH_GROUNDS = _words(
    meadow="草地上|草原上",
    beach="海滩上|沙滩上|海边",
    snow="雪地里|雪中",
    night="夜晚|夜空下|晚上",
    sunset="日落时|夕阳下",
    underwater="水下|海底|水里",
)
_ZH_STYLES = _words(
    black_and_white="黑白|黑白画",
    pixel_art="像素画|像素风",
    pencil_sketch="铅笔素描|素描|铅笔画",
    blueprint="蓝图|设计图",
)


def _chinese(scene: Scene, choice: Choice) -> str:
    first, *others = (_chinese_thing(thing, choice) for thing in scene.things)
    if scene.relation == "between":
        text = f"{first}在{others[0]}和{others[1]}{choice.of(_ZH_RELATIONS['between'])}"
    elif scene.relation == "left of" and choice.sometimes(0.15):
        text = f"{first}和{others[0]}"
    elif scene.relation:
        of = "" if choice.sometimes(0.5) else "的"
        text = f"{first}在{others[0]}{of}{choice.of(_ZH_RELATIONS[scene.relation])}"
    else:
        text = first
    if scene.says_ground:
        if scene.ground in COLOURS:
            ground = f"{choice.of(_ZH_COLOURS[scene.ground])}背景"
        else:
            ground = choice.of(_ZH_GROUNDS[scene.ground])
        text = f"{ground}，{text}" if choice.sometimes(0.3) else f"{text}，{ground}"
    return f"{text}，{choice.of(_ZH_STYLES[scene.style])}" if scene.style else text


def _chinese_thing(thing: Thing, choice: Choice) -> str:
    size = choice.of(_ZH_SIZES[thing.size]) if thing.size else ""
    colour = f"{choice.of(_ZH_COLOURS[thing.colour])}的" if thing.colour else ""
    number = "一两三"[thing.count - 1] + ("只" if _is_animal(thing) else "个")
    if thing.count == 1 and choice.sometimes(0.4):
        number = ""
    return f"{number}{size}{colour}{_name(thing, 'zh', _ZH_SHAPES, choice)}"


# Arabic

_AR_SIZES = {"small": ("صغير", "صغيرة"), "large": ("كبير", "كبيرة")}
_AR_COLOURS = {
    "red": ("أحمر", "حمراء"),
    "green": ("أخضر", "خضراء"),
    "blue": ("أزرق", "زرقاء"),
    "yellow": ("أصفر", "صفراء"),
    "purple": ("بنفسجي", "بنفسجية"),
    "orange": ("برتقالي", "برتقالية"),
    "white": ("أبيض", "بيضاء"),
    "black": ("أسود", "سوداء"),
    "pink": ("وردي", "وردية"),
    "cyan": ("سماوي", "سماوية"),
}
"""Adjectives for a masculine and a feminine noun."""
_AR_SHAPES = _words(
    circle="دائرة",
    square="مربع",
    triangle="مثلث",
    star="نجمة",
    heart="قلب",
    ring="حلقة",
    moon="هلال",
    cross="صليب",
    diamond="معين",
    flower="زهرة",
)
_AR_RELATIONS = _words(
    left_of="على يسار|إلى يسار|يسار",
    right_of="على يمين|إلى يمين|يمين",
    above="فوق|أعلى",
    below="تحت|أسفل",
)
_AR_GROUNDS = _words(
    meadow="في مرج|على العشب",
    beach="على الشاطئ|على شاطئ البحر",
    snow="في الثلج|على الثلج",
    night="في الليل|ليلا",
    sunset="عند الغروب|وقت الغروب",
    underwater="تحت الماء",
)
_AR_STYLES = _words(
    black_and_white="أبيض وأسود|بالأبيض والأسود",
    pixel_art="فن البكسل|بكسل",
    pencil_sketch="رسم بقلم رصاص|رسم بالرصاص",
    blueprint="مخطط هندسي|مخطط أزرق",
)
_AR_FEMININE = frozenset({"شمس", "نار", "كأس", "فأس", "سن", "أفعى"})


def _arabic(scene: Scene, choice: Choice) -> str:
    first, *others = (_arabic_thing(thing, choice) for thing in scene.things)
    if scene.relation == "between":
        text = f"{first} بين {others[0]} و{others[1]}"
    elif scene.relation == "left of" and choice.sometimes(0.15):
        text = f"{first} و{others[0]}"
    elif scene.relation:
        text = f"{first} {choice.of(_AR_RELATIONS[scene.relation])} {others[0]}"
    else:
        text = first
    if scene.says_ground:
        plain = scene.ground in COLOURS
        ground = (
            f"على خلفية {_AR_COLOURS[scene.ground][1]}" if plain else choice.of(_AR_GROUNDS[scene.ground])
        )
        text = f"{text} {ground}"
    return f"{text}، {choice.of(_AR_STYLES[scene.style])}" if scene.style else text


def _arabic_thing(thing: Thing, choice: Choice) -> str:
    """Return an Arabic noun with its adjectives: the dual for two, "three times" for three."""
    name = _name(thing, "ar", _AR_SHAPES, choice)
    noun, *rest = name.split(" ")
    feminine = noun.endswith("ة") or noun in _AR_FEMININE
    pairs = [_AR_SIZES[thing.size]] if thing.size else []
    pairs += [_AR_COLOURS[thing.colour]] if thing.colour else []
    adjectives = [pair[feminine] for pair in pairs]
    if thing.count == 2:
        return " ".join([_dual(noun), *rest, *map(_dual, adjectives)])
    words = " ".join([name, *adjectives])
    return f"{words} ثلاث مرات" if thing.count == 3 else words


def _dual(word: str) -> str:
    if word.endswith("ة"):
        return f"{word[:-1]}تان"
    return f"{word[:-1]}وان" if word.endswith("اء") else f"{word}ان"


_GRAMMARS: Mapping[Language, Callable[[Scene, Choice], str]] = {
    "en": _english,
    "ko": _korean,
    "zh": _chinese,
    "ar": _arabic,
}
