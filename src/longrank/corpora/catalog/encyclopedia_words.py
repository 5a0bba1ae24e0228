"""Word lists and filler sentences of the invented encyclopedia; the slots are those of ``encyclopedia_grammar``."""


def _listed(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(","))


WORDS = {
    "given": _listed(
        "Adam, Agnes, Anton, Bertha, Clara, Conrad, Daniel, Edith, Emil, Felix, Frida, George, Greta, Helen, Hugo, "
        "Ida, Jacob, Josef, Laura, Leon, Louise, Martin, Max, Nina, Oscar, Paul, Rosa, Simon, Sophie, Thomas, "
        "Vera, Walter"
    ),
    "surname": _listed(
        "Archer, Baker, Berry, Black, Brook, Carpenter, Cook, Cross, Field, Fisher, Forest, Fox, Frost, Glass, "
        "Gold, Green, Hunter, King, Lane, Mason, Miller, Moon, North, Page, Porter, Rivers, Shepherd, Snow, Stone, "
        "Wolf, Wood, Young"
    ),
    "year": tuple(str(year) for year in range(1520, 1950)),
    "thousands": tuple(f"{n // 1000},{n % 1000:03d}" for n in range(1100, 9900, 50)),
    "dozens": tuple(str(n) for n in range(24, 480, 4)),
    "miles": tuple(f"{n} miles" for n in range(11, 290)),
    "feet": tuple(f"{n} feet" for n in range(90, 700, 2)),
    "substance": _listed(
        "oak, red brick, granite, white marble, pine, cast iron, slate, sandstone, copper, cedar, limestone, "
        "steel, birch, bronze, glass blocks, concrete, bamboo, grey stone"
    ),
    "goods": _listed(
        "honey, wool, candles, cheese, rope, paper, cider, pottery, salt, leather boots, clocks, soap, barrels, "
        "lace, knives, tea, umbrellas, violins, nails, pepper, mirrors, hats, carpets, butter, dried fish, coffee, "
        "bells, toys, ink, silk"
    ),
    "month": _listed(
        "January, February, March, April, May, June, July, August, September, October, November, December"
    ),
    "paint": _listed(
        "yellow, dark green, pale blue, crimson, orange, violet, silver, pink, black, white, scarlet, brown, "
        "ivory, sky blue, rust red, grey"
    ),
    "animals": _listed(
        "otters, herons, wild goats, seals, bats, foxes, pelicans, swans, beavers, owls, turtles, ravens, hares, "
        "deer, storks, lizards, salmon, eagles, frogs, ducks"
    ),
    "device": _listed(
        "a white heron, a broken crown, a running hare, three stars, a rising sun, an open hand, a sleeping bear, "
        "two keys, a black anchor, a burning torch, a golden bee, a twisted rope, a silver fish, a red wheel, an "
        "oak leaf, a crescent moon, a blind horse, a stone tower"
    ),
    "epithet": _listed(
        "Grey, Upper, Lower, Cold, Long, Bitter, Silent, Broad, Golden, Windy, Broken, Early, Distant, Bright, "
        "Hidden, Crooked, Northern, Southern, Eastern, Western, Dark, Quiet, Stony, Gentle"
    ),
    "country": _listed("Moor, Plain, March, Heath, County, Valley, Shire, Lowland, Coast, Highland"),
    "height": _listed("Peak, Ridge, Mountain, Pass, Hill, Rock, Summit, Glacier"),
    "water": _listed("Bay, Lake, Sound, Gulf, Lagoon, Strait, Harbour, Ocean"),
    "village": _listed("Mill, Cross, Chapel, Green, Farm, Gate, Meadow, Well, Corner, Orchard"),
    "peril": _listed(
        "sudden floods, hidden rocks, whirlpools, drifting logs, thick fogs, blocks of ice, shifting sands, "
        "falling trees, strong currents, storms, snakes, rapids, muddy banks, swarms of wasps"
    ),
    "instrument": _listed(
        "violin, flute, organ, harp, cello, trumpet, drum, lute, piano, horn, guitar, oboe, clarinet, bassoon, viola"
    ),
    "mood": _listed(
        "Winter, Silver, Lonely, Second, Paper, Borrowed, Hidden, Iron, Last, Summer, Laughing, Broken, Glass, Sleeping"
    ),
    "object": _listed(
        "Gate, Garden, Lantern, Journey, Shore, Crown, Mirror, Orchard, Stranger, Window, Feather, Staircase, Harvest"
    ),
    "craft": _listed(
        "baker, tailor, fisherman, locksmith, weaver, painter, doctor, barber, farmer, butcher, soldier, miner, "
        "shepherd, printer, gardener, clerk, priest, sailor, blacksmith, potter"
    ),
    "who": _listed(
        "travellers, scholars, neighbours, critics, school children, old sailors, students, officials, poets, "
        "collectors, guides, local families, journalists, visitors from abroad"
    ),
    "adj": _listed(
        "old, faded, careful, modest, curious, lively, plain, odd, patient, thick, dull, cheerful, famous, quiet, "
        "rough, tidy, little known, handsome, strange, unfinished"
    ),
    "often": _listed("often, rarely, always, sometimes, still, usually, seldom, mostly"),
    "when": _listed(
        "in the evening, after the rain, in wet weather, on market days, in hard times, during the holidays, after "
        "the war, on clear mornings, at the weekend, out of season"
    ),
    "feeling": _listed(
        "pride, some regret, great warmth, mild envy, affection, good humour, deep respect, amusement, real "
        "delight, unease"
    ),
    "thing": _listed(
        "diary, album, letter, drawing, song book, ledger, almanac, pamphlet, photograph, newspaper, poem, essay"
    ),
    "few": _listed("two, three, only four, a dozen, several, hardly any"),
    "doubt": _listed("hearsay, memory, guesswork, gossip, rumour, good will, a single witness, habit"),
}

COMMON_FILLER = (
    "Much of what is told about {ref} rests on {doubt}.",
    "{who} {often} speak of {ref} with {feeling}.",
    "A full account would fill a {adj} {thing}, as {who} like to say.",
    "One {adj} guidebook gives {ref} {few} pages.",
    "{who} who come {when} tend to stay longer than planned.",
    "There is no agreement among {who} as to why this is so.",
    "A {adj} {thing} in the archive is {often} quoted in this connection.",
    "The tale is repeated {when}, with small changes each time.",
    "Nothing of this was written down until much later.",
    "{who} have tried more than once to change this, without success.",
    "One {adj} {thing} mentions it in a single line.",
    "For {who}, {ref} remains a matter of {feeling}.",
    "A {adj} exhibition told the story to {who}, and was well received.",
    "Whether this will last is {often} debated {when}.",
    "The {adj} {thing} that proves it is shown to {who} {when}.",
    "{who} find little to add to this.",
)

GROUP_FILLER = {
    "land": (
        "The view of {ref} {when} has filled many a {adj} {thing}.",
        "The road to {ref} is {adj} and {often} empty {when}.",
        "{who} camp close by {when} and leave with {feeling}.",
        "The air around {ref} is mild, and {who} praise it.",
        "A {adj} inn near by serves soup to {who}.",
    ),
    "work": (
        "Repairs to {ref} are {often} carried out {when}.",
        "A {adj} model of {ref} stands in a school not far away.",
        "{who} queue {when} to take a closer look at {ref}.",
        "The {adj} sound of {ref} {when} is hard to forget.",
        "Small parts of {ref} are kept by {who} as a memento.",
    ),
    "firm": (
        "Business at {ref} is {often} slow {when}.",
        "The {adj} office of {ref} smells of dust and fresh bread.",
        "{who} apply to {ref} for a post and are politely answered.",
        "Meetings at {ref} are {adj} and {often} end with a toast.",
        "A {adj} {thing} about {ref} was handed out to {who}.",
    ),
    "life": (
        "A {adj} statue of {ref} is visited by {who} {when}.",
        "{who} describe {ref} as a {adj} guest at any table.",
        "The {adj} {thing} of {ref} came to light after a move.",
        "{ref} was {often} seen on long walks {when}.",
        "{who} {often} play {ref} {when}, with {feeling}.",
    ),
}

NEIGHBOUR_FILLER = (
    "The case of {o} is quite different, although the two are {often} mixed up.",
    "Letters meant for {o} have arrived here by mistake.",
    "One {adj} {thing} treats {o} in the same chapter.",
    "A comparison with {o} is {often} made by {who}.",
)
