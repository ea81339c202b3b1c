"""The modules, a file for each kind."""

from .activation import *  # noqa: F403
from .batchnorm import *  # noqa: F403
from .containers import *  # noqa: F403
from .conv import *  # noqa: F403
from .dropout import *  # noqa: F403
from .embedding import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .module import Module
from .normalization import *  # noqa: F403
from .padding import *  # noqa: F403
from .pooling import *  # noqa: F403
from .shape import *  # noqa: F403
