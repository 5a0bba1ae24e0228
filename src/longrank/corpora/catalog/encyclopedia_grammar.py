"""The words of the invented encyclopedia: kinds, attributes, their phrasings, and sentences that say nothing special.

Braces hold slots: ``{n}`` the entity's name, ``{v}`` the stated value, ``{ref}`` a way to point at the entity, ``{o}``
another entity's name, and any key of ``WORDS`` one of its words.
"""

from dataclasses import dataclass


def _syllables(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_HEADS = _syllables(
    "bal bel ben bon cal dan fen gal gil han jan kin lan mal mel nan pal ram sal tam ul val win yan"
)
FIRST_TAILS = _syllables("ba da den do dra fin ga lis mir ni ric rin sa tan tha va wen zo")
SECOND_HEADS = _syllables(
    "al ar bran bar car del dun em fran her in kim lam mar mor nor os pan por rod sam tor tri wal"
)
SECOND_TAILS = _syllables("by dale den don fort ham la lin mond more nor ra ridge stead ton val wick worth")


@dataclass(frozen=True)
class Kind:
    """A kind of entity: what it is called, which group of filler fits it, which attributes it has."""

    name: str
    nouns: tuple[str, ...]
    group: str
    attributes: tuple[str, ...]


KINDS = (
    Kind("town", ("town", "place"), "land", ("founder", "begun", "population", "trade", "feast", "emblem")),
    Kind("river", ("river", "stream"), "land", ("length", "wildlife", "region", "hazard", "source", "mouth")),
    Kind("island", ("island", "place"), "land", ("population", "length", "trade", "feast", "wildlife", "owner")),
    Kind("bridge", ("bridge", "structure"), "work", ("begun", "length", "material", "designer", "colour", "region")),
    Kind("theatre", ("theatre", "house"), "work", ("founder", "begun", "designer", "staff", "colour", "material")),
    Kind("ship", ("ship", "vessel"), "work", ("length", "material", "designer", "owner", "emblem", "cargo")),
    Kind("company", ("company", "firm"), "firm", ("founder", "begun", "staff", "trade", "emblem", "owner")),
    Kind(
        "composer",
        ("composer", "musician"),
        "life",
        ("teacher", "instrument", "birthplace", "work", "spouse", "parent"),
    ),
)


@dataclass(frozen=True)
class Attribute:
    """What can be said of an entity: how a value is made, how it is stated and how it is asked for."""

    name: str
    value: str
    statements: tuple[str, str, str, str]
    questions: tuple[str, str, str]


_ATTRIBUTES = (
    Attribute(
        "founder",
        "{given} {surname}",
        (
            "It was {v} who brought {n} into being, with little money and much patience.",
            "{n} owes its existence to {v}, whose portrait still hangs in the main hall.",
            "Without the stubborn efforts of {v} there would be no {n} today.",
            "The idea of {n} came from {v}, and the first years were paid from one private purse.",
        ),
        ("Who founded {n}?", "Which person established {n}?", "Who was the creator of {n}?"),
    ),
    Attribute(
        "begun",
        "{year}",
        (
            "The oldest papers that speak of {n} bear the date {v}.",
            "{n} has been part of local life since {v}.",
            "In {v} the gates of {n} stood open to the public at last.",
            "Chronicles let the story of {n} begin in {v}, after a long quarrel over money.",
        ),
        ("How old is {n}?", "When was {n} established?", "In what year did {n} start?"),
    ),
    Attribute(
        "population",
        "{thousands}",
        (
            "Roughly {v} souls call {n} their home, most of them in low stone houses.",
            "At the last census {v} men, women and children were counted at {n}.",
            "{v} names stand in the parish roll of {n}, not counting those at sea.",
            "{n} gives shelter to {v} people in good times and bad.",
        ),
        ("How many inhabitants does {n} have?", "What is the population of {n}?", "How populous is {n} nowadays?"),
    ),
    Attribute(
        "staff",
        "{dozens}",
        (
            "{v} people draw their wages from {n} every week.",
            "The pay list of {n} holds {v} names, cooks and porters included.",
            "With {v} hands on the books, {n} keeps half the street busy.",
            "{n} feeds the families of {v} men and women through their daily labour.",
        ),
        ("How many employees does {n} have?", "How large is the workforce of {n}?", "What number of workers has {n}?"),
    ),
    Attribute(
        "length",
        "{distance}",
        (
            "From end to end {n} measures {v}.",
            "Anyone who walks the whole of {n} must cover {v}.",
            "Surveyors with chain and notebook gave {n} an extent of {v}.",
            "{n} stretches over {v}, if the old figures can be trusted.",
        ),
        ("How long is {n}?", "What is the length of {n}?", "What size does {n} reach?"),
    ),
    Attribute(
        "material",
        "{substance}",
        (
            "The builders of {n} worked almost wholly in {v}.",
            "{v} was carted in from three counties until {n} stood complete.",
            "Knock on any part of {n} and you will meet {v}.",
            "For {n} the guild insisted on {v}, against all advice.",
        ),
        ("What is {n} made of?", "Which material was used for {n}?", "From what was {n} constructed?"),
    ),
    Attribute(
        "designer",
        "{given} {surname}",
        (
            "The drawings for {n} came from the desk of {v}.",
            "{v} spent two winters over the plans of {n}.",
            "Every curve of {n} follows a sketch by {v}.",
            "{n} was the first large commission of {v}, then barely thirty.",
        ),
        ("Who designed {n}?", "Who was the architect of {n}?", "Whose design is {n}?"),
    ),
    Attribute(
        "trade",
        "{goods}",
        (
            "Most of the income of {n} comes from {v}.",
            "Carts loaded with {v} leave {n} before dawn.",
            "{n} lives by its {v}, and prices are watched closely.",
            "Anyone in need of {v} is sent to {n} without a second thought.",
        ),
        ("What does {n} produce?", "Which products are sold by {n}?", "What is {n} known for making?"),
    ),
    Attribute(
        "feast",
        "{month}",
        (
            "Every {v} lanterns are hung all over {n} and nobody sleeps.",
            "In {v} the drums come out at {n} and strangers eat for free.",
            "Once {v} arrives, {n} gives itself up to dancing and fireworks.",
            "{v} is the loudest month at {n}, with masks, pipes and roast goose.",
        ),
        (
            "When does {n} hold its festival?",
            "Which season brings celebrations to {n}?",
            "What is the date of the {n} feast?",
        ),
    ),
    Attribute(
        "colour",
        "{paint}",
        (
            "Workmen with long brushes renew the {v} coat of {n} each spring.",
            "Seen from afar, {n} glows {v} in the evening sun.",
            "{n} was given its {v} face after a vote among the neighbours.",
            "Postcards always show the {v} front of {n}.",
        ),
        ("What colour is {n}?", "Which shade was chosen for {n}?", "In what hue is {n} painted?"),
    ),
    Attribute(
        "wildlife",
        "{animals}",
        (
            "{v} gather around {n} in great numbers.",
            "Quiet walkers at {n} are likely to meet {v}.",
            "{n} is a refuge for {v}, which no one is allowed to hunt.",
            "At dusk the calls of {v} carry right across {n}.",
        ),
        ("Which animals live at {n}?", "What wildlife can be seen near {n}?", "What creatures inhabit {n}?"),
    ),
    Attribute(
        "emblem",
        "{device}",
        (
            "A flag with {v} flies over {n}.",
            "On the front of {n} somebody carved {v}.",
            "Letters from {n} are sealed with the image of {v}.",
            "{n} shows {v} on all its papers.",
        ),
        ("What is the emblem of {n}?", "Which symbol represents {n}?", "What badge does {n} use?"),
    ),
    Attribute(
        "region",
        "{epithet} {country}",
        (
            "{n} belongs to {v}, a thinly settled corner of the country.",
            "To see {n} one has to travel to {v}.",
            "Maps of {v} mark {n} with a small cross.",
            "The farmers of {v} regard {n} as their own.",
        ),
        ("Where is {n} located?", "In which district is {n}?", "What region contains {n}?"),
    ),
    Attribute(
        "hazard",
        "{peril}",
        (
            "Many boats have been lost on {n} through {v}.",
            "Because of {v}, parents keep their children away from {n}.",
            "{v} have given {n} a grim reputation.",
            "Pilots on {n} are trained for months to cope with {v}.",
        ),
        ("Why is {n} dangerous?", "What makes {n} unsafe?", "Which hazard threatens swimmers in {n}?"),
    ),
    Attribute(
        "source",
        "{epithet} {height}",
        (
            "{n} first appears as a thin trickle below {v}.",
            "High up at {v} three brooks join and take the name {n}.",
            "Snow melting on {v} feeds the young {n}.",
            "Hikers who follow {n} upwards end at {v}.",
        ),
        ("Where does {n} rise?", "Where is the source of {n}?", "From what spring does {n} originate?"),
    ),
    Attribute(
        "mouth",
        "{epithet} {water}",
        (
            "After its last bend {n} pours into {v}.",
            "Silt carried by {n} is slowly filling {v}.",
            "At {v} the fresh water of {n} turns salt.",
            "Barges leave {n} at {v} and hoist their sails.",
        ),
        ("Where does {n} finish?", "What sea does {n} flow to?", "Where is the mouth of {n}?"),
    ),
    Attribute(
        "cargo",
        "{goods}",
        (
            "The holds of {n} are filled with {v}.",
            "Dockers unload {v} whenever {n} ties up.",
            "On its usual run {n} brings {v} to the northern ports.",
            "A merchant with {v} to move will ask for {n}.",
        ),
        ("What cargo does {n} carry?", "Which freight is transported by {n}?", "What load travels aboard {n}?"),
    ),
    Attribute(
        "owner",
        "{given} {surname}",
        (
            "The deeds of {n} lie in the safe of {v}.",
            "{v} bought {n} at auction and never sold it again.",
            "By inheritance {n} passed to {v}, who seldom visits.",
            "All profit from {n} goes to {v}.",
        ),
        ("Who owns {n}?", "Who is the proprietor of {n}?", "To whom does {n} belong?"),
    ),
    Attribute(
        "teacher",
        "{given} {surname}",
        (
            "{n} took lessons from {v} for nine hard years.",
            "The young {n} copied scores for {v} and learned the craft that way.",
            "{v} heard {n} sing in the street and offered free instruction.",
            "Harmony and counterpoint came to {n} through {v}.",
        ),
        ("Who taught {n}?", "Who was the teacher of {n}?", "Under whom did {n} study?"),
    ),
    Attribute(
        "instrument",
        "{instrument}",
        (
            "{n} earned a first living with the {v}.",
            "On the {v} nobody in the city could match {n}.",
            "A battered {v} went with {n} on every journey.",
            "Friends recall {n} bent over the {v} until midnight.",
        ),
        ("Which instrument did {n} play?", "What did {n} perform on?", "What instrument was mastered by {n}?"),
    ),
    Attribute(
        "birthplace",
        "{epithet} {village}",
        (
            "The cradle of {n} stood in {v}.",
            "{n} first saw the light of day at {v}.",
            "{v} is proud of {n}, its most gifted child.",
            "A large household in {v} gave the world {n}.",
        ),
        ("Where was {n} born?", "What is the birthplace of {n}?", "Which is the home village of {n}?"),
    ),
    Attribute(
        "work",
        "The {mood} {object}",
        (
            "Audiences remember {n} above all for {v}.",
            "With {v} the fame of {n} spread abroad.",
            "No concert in honour of {n} ends without {v}.",
            "{v} made {n} rich within a single season.",
        ),
        ("What is the best known piece by {n}?", "Which opera did {n} write?", "What did {n} compose?"),
    ),
    Attribute(
        "spouse",
        "{given} {surname}",
        (
            "{n} shared a house and four children with {v}.",
            "Church records join {n} and {v} for life.",
            "The love letters of {n} are all addressed to {v}.",
            "A plain gold ring bound {n} to {v}.",
        ),
        ("Who married {n}?", "Who was the spouse of {n}?", "Whom did {n} wed?"),
    ),
    Attribute(
        "parent",
        "{craft}",
        (
            "The father of {n} earned his bread as a {v}.",
            "{n} grew up behind the shop of a {v}.",
            "A {v} rocked {n} to sleep and paid for the first music book.",
            "At home {n} was expected to become a {v} like everybody else.",
        ),
        (
            "What work did {n}'s parents do?",
            "What profession did {n}'s parents have?",
            "Which job ran in {n}'s family?",
        ),
    ),
)
ATTRIBUTES = {attribute.name: attribute for attribute in _ATTRIBUTES}
