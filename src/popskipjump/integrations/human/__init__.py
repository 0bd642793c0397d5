"""Human classifiers: an attack's queries as questions on a web page."""

from popskipjump.integrations.human.answers import Reply
from popskipjump.integrations.human.study import Material, Study

__all__ = ["Material", "Reply", "Study"]
