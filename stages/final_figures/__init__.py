"""The paper's figures: drawn one by one from recorded arrays, checked, chosen and placed by rule."""

from stages.final_figures.work import final_figures as final_figures
