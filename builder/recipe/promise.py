"""Which wheels must be in an index beside those that are offered."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from builder.model import Promise, Recipe
from builder.recipe.label import local_version


def promises(recipes: Sequence[Recipe], offered: Collection[tuple[str, str]]) -> frozenset[Promise]:
    """What these recipes promise; `offered` are the (recipe, package) names of the wheels at hand.

    A recipe's other packages must be there in exactly the version that it gives them. A platform that
    none of the recipes builds for has a recipe of its own, which is not known here: nobody can say that it is there.
    """
    pairs = [(recipe, package) for recipe in recipes for package in recipe.packages]
    rest = {
        Promise(package.name, recipe.target.platform, local_version(recipe, package))
        for recipe, package in pairs
        if (recipe.name, package.name) not in offered
    }
    built = {(package.name, recipe.target.platform) for recipe, package in pairs}
    named = {(package.name, platform) for recipe, package in pairs for platform in recipe.platforms}
    return frozenset(rest | {Promise(name, platform) for name, platform in named - built})
